/* SPDX-License-Identifier: Apache-2.0 */
// The device's code on a Cortex-M3 without an operating system: QEMU's mps2-an385, its first UART by polling; asleep
// when nothing comes: a core that polls all the time keeps QEMU on a busy machine from bringing it anything.
#include "toy.hpp"

namespace {

// Arm CMSDK UART (DDI 0479): DATA, STATE (bit 0 transmitter full, bit 1 receiver full), CTRL (bits 0 and 1 enable both,
// bit 3 the receiver's interrupt), INTSTATUS (bit 1 receiver), BAUDDIV.
volatile uint32_t *const kUart = reinterpret_cast<volatile uint32_t *>(0x40004000);
// SysTick: control, reload, current; counts down at the core's 25 MHz.
volatile uint32_t *const kSysTick = reinterpret_cast<volatile uint32_t *>(0xe000e010);
// NVIC: enable and clear pending; the receiver's interrupt is number 0. It wakes the core and is never taken.
volatile uint32_t *const kNvicEnable = reinterpret_cast<volatile uint32_t *>(0xe000e100);
volatile uint32_t *const kNvicClear = reinterpret_cast<volatile uint32_t *>(0xe000e280);
// Before it sleeps: QEMU takes longer to wake a core than to bring the next byte.
constexpr int kLooks = 200;
uint32_t g_wraps;
uint32_t g_before;

uint32_t Ticks()
{
	const uint32_t now = 0xffffff - kSysTick[2];
	g_wraps += now < g_before ? 1u << 24 : 0;
	g_before = now;
	return g_wraps + now;
}

void Write(void *, const uint8_t *data, size_t size)
{
	for (size_t i = 0; i < size; ++i) {
		while ((kUart[1] & 1) != 0) {
		}
		kUart[0] = data[i];
	}
}

size_t Read(void *, uint8_t *data, size_t size)
{
	kUart[3] = 2;
	*kNvicClear = 1;
	for (int looks = 0; looks < kLooks && (kUart[1] & 2) == 0; ++looks) {
	}
	if ((kUart[1] & 2) == 0) {
		__asm__ volatile("wfi");
	}
	size_t got = 0;
	while (got < size && (kUart[1] & 2) != 0) {
		data[got++] = static_cast<uint8_t>(kUart[0]);
	}
	return got;
}

}  // namespace

int main()
{
	kUart[4] = 16;
	__asm__ volatile("cpsid i");
	*kNvicEnable = 1;
	kUart[2] = 3 + 8;
	kSysTick[1] = 0xffffff;
	kSysTick[2] = 0;
	kSysTick[0] = 5;
	toy::now = Ticks;
#ifdef ECHO
	while (true) {
		uint8_t data[64];
		Write(nullptr, data, Read(nullptr, data, sizeof(data)));
	}
#endif
	const tflm_link::Port port = {nullptr, Read, Write, [](void *) { return Ticks(); }, [](void *, bool) {}};
	const tflm_link::App app = {"toy_app", "mps2/an385", "none", "no-revision", "no-zephyr", toy::Models(), 3, 25000000, 2048, nullptr};
	static tflm_link::Device device(port, app);
	device.Start();
	while (true) {
		device.Poll();
	}
}
