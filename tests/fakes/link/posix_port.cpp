/* SPDX-License-Identifier: Apache-2.0 */
#include "posix_port.hpp"

#include <cstdlib>
#include <cstring>
#include <ctime>

#include <poll.h>
#include <unistd.h>

namespace posix_port {
namespace {

uint8_t g_out[1 << 16];
size_t g_out_size;
uint8_t g_in[1 << 16];
size_t g_in_at;
size_t g_in_size;

void Write(void *, const uint8_t *data, size_t size)
{
	if (size > sizeof(g_out) - g_out_size) {
		std::abort();
	}
	if (size != 0) {
		std::memcpy(g_out + g_out_size, data, size);
	}
	g_out_size += size;
}

void Lock(void *, bool taken)
{
	if (!taken) {
		Send(g_out, g_out_size);
		g_out_size = 0;
	}
}

}  // namespace

void Send(const void *data, size_t size)
{
	const uint8_t *at = static_cast<const uint8_t *>(data);
	while (size != 0) {
		const ssize_t sent = write(STDOUT_FILENO, at, size);
		if (sent <= 0) {
			std::exit(1);
		}
		at += sent;
		size -= static_cast<size_t>(sent);
	}
}

size_t Read(void *, uint8_t *data, size_t size)
{
	if (g_in_at == g_in_size) {
		pollfd in = {STDIN_FILENO, POLLIN, 0};
		if (poll(&in, 1, 100) <= 0) {
			return 0;
		}
		const ssize_t got = read(STDIN_FILENO, g_in, sizeof(g_in));
		if (got <= 0) {
			std::exit(0);
		}
		g_in_at = 0;
		g_in_size = static_cast<size_t>(got);
	}
	size = size < g_in_size - g_in_at ? size : g_in_size - g_in_at;
	std::memcpy(data, g_in + g_in_at, size);
	g_in_at += size;
	return size;
}

uint32_t Ticks()
{
	timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return static_cast<uint32_t>(now.tv_sec * 1000000 + now.tv_nsec / 1000);
}

tflm_link::Port Open()
{
	return {nullptr, Read, Write, [](void *) { return Ticks(); }, Lock};
}

}  // namespace posix_port
