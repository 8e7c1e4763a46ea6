/* SPDX-License-Identifier: Apache-2.0 */
// The device's code as a process: frames on stdin and stdout. Arguments: stateful, slow (an invocation takes 0.3 s),
// text (prints during each), crash (dies in an invocation whose first byte is 0xcc), echo (bytes back, no frames).
#include <cstdlib>
#include <cstring>
#include <ctime>

#include <poll.h>
#include <unistd.h>

#include "link/mlperf.hpp"
#include "toy.hpp"

#ifndef WINDOW_BYTES
#define WINDOW_BYTES 2048
#endif

namespace {

bool g_slow;
bool g_text;
bool g_crash;

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

uint8_t g_out[1 << 16];
size_t g_out_size;

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

uint8_t g_in[1 << 16];
size_t g_in_at;
size_t g_in_size;

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

void DuringInvoke(uint8_t first)
{
	if (g_text) {
		static const char kText[] = "app: at work\n";
		Send(kText, sizeof(kText) - 1);
	}
	if (g_slow) {
		const timespec pause = {0, 300000000};
		nanosleep(&pause, nullptr);
	}
	if (g_crash && first == 0xcc) {
		static const char kText[] = "TFLM:error code=8 at=abort\n";
		Send(kText, sizeof(kText) - 1);
		pause();
	}
}

}  // namespace

int main(int count, char **words)
{
	for (int i = 1; i < count; ++i) {
		toy::stateful |= std::strcmp(words[i], "stateful") == 0;
		g_slow |= std::strcmp(words[i], "slow") == 0;
		g_text |= std::strcmp(words[i], "text") == 0;
		g_crash |= std::strcmp(words[i], "crash") == 0;
		while (std::strcmp(words[i], "echo") == 0) {
			static uint8_t data[sizeof(g_in)];
			Send(data, Read(nullptr, data, sizeof(data)));
		}
	}
	toy::during_invoke = DuringInvoke;
	toy::now = Ticks;
	const tflm_link::Port port = {nullptr, Read, Write, [](void *) { return Ticks(); }, Lock};
	const tflm_link::App app = {"toy_app", "host", "none", "no-revision", "no-zephyr", toy::Models(), 2, 1000000, WINDOW_BYTES, nullptr};
	for (int i = 1; i < count; ++i) {
		if (std::strcmp(words[i], "mlperf") == 0) {
			static uint8_t loaded[toy::kBytes];
			static tflm_link::Mlperf mlperf(port, app, *toy::Models()[0], {loaded, sizeof(loaded)});
			mlperf.Start();
			while (true) {
				mlperf.Poll();
			}
		}
	}
	static tflm_link::Device device(port, app);
	device.Start();
	while (true) {
		device.Poll();
	}
}
