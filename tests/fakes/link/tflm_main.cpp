/* SPDX-License-Identifier: Apache-2.0 */
// A generated app's models and its side of the link with TFLM itself, as a process on stdin and stdout. MODELS is a
// header that defines kAll, their link models.
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "link/cycles.hpp"
#include "link/device.hpp"
#include "posix_port.hpp"
#include "tensorflow/lite/micro/debug_log.h"
#include "tensorflow/lite/micro/micro_time.h"
#include MODELS

extern "C" void DebugLog(const char *format, va_list args)
{
	vfprintf(stderr, format, args);
}

extern "C" int DebugVsnprintf(char *buffer, size_t size, const char *format, va_list args)
{
	return vsnprintf(buffer, size, format, args);
}

namespace tflite {

uint32_t ticks_per_second()
{
	return 1000000;
}

uint32_t GetCurrentTimeTicks()
{
	return posix_port::Ticks();
}

}  // namespace tflite

namespace tflm_link {

uint32_t Cycles()
{
	return posix_port::Ticks();
}

}  // namespace tflm_link

int main()
{
	const tflm_link::Port port = posix_port::Open();
	const tflm_link::App app = {"tflm_app", "host", "reference", "no-revision", "no-zephyr", kAll, kAllCount, 1000000, 2048, nullptr};
	static tflm_link::Device device(port, app);
	device.Start();
	while (true) {
		device.Poll();
	}
}
