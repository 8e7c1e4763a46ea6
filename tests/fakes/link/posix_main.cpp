/* SPDX-License-Identifier: Apache-2.0 */
// The device's code as a process: frames on stdin and stdout. Arguments: stateful, slow (an invocation takes 0.3 s),
// text (prints during each), crash (dies in an invocation whose first byte is 0xcc), echo (bytes back, no frames).
#include <cstring>
#include <ctime>

#include <unistd.h>

#include "posix_port.hpp"
#include "toy.hpp"

#ifndef WINDOW_BYTES
#define WINDOW_BYTES 2048
#endif

using posix_port::Read;
using posix_port::Send;

namespace {

bool g_slow;
bool g_text;
bool g_crash;

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
			static uint8_t data[1 << 16];
			Send(data, Read(nullptr, data, sizeof(data)));
		}
	}
	toy::during_invoke = DuringInvoke;
	toy::now = posix_port::Ticks;
	const tflm_link::Port port = posix_port::Open();
	const tflm_link::App app = {"toy_app", "host", "none", "no-revision", "no-zephyr", toy::Models(), 3, 1000000, WINDOW_BYTES, nullptr};
	static tflm_link::Device device(port, app);
	device.Start();
	while (true) {
		device.Poll();
	}
}
