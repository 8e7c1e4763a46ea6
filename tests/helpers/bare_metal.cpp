// SPDX-License-Identifier: Apache-2.0
// The program of bare_metal.py around one model's layers: no operating system, output by semihosting. program.inc is
// written for the model: LAYERS_HEADER, MODEL, the statements START, INPUTS and OUTPUTS, and with CHECKED also LAYERS
// and MOST.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "program.inc"
#include LAYERS_HEADER

extern "C" const uint8_t g_blob[];
extern "C" uint32_t g_stack[], g_stack_end[];

namespace {
alignas(16) uint8_t g_arena[MODEL::kArenaBytes];

int Call(int number, const void *argument)
{
	register int r0 asm("r0") = number;
	register const void *r1 asm("r1") = argument;
	asm volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
	return r0;
}

void Say(const char *text) { Call(4, text); }

void Say(const char *name, int32_t value)
{
	char digits[12], *at = digits + 11;
	uint32_t rest = value < 0 ? -value : value;
	*at = 0;
	do {
		*--at = '0' + rest % 10;
		rest /= 10;
	} while (rest != 0);
	if (value < 0) {
		*--at = '-';
	}
	Say(name);
	Say(at);
	Say("\n");
}

int32_t Different(const uint8_t *got, const uint8_t *want, size_t size)
{
	int32_t count = 0;
	for (size_t i = 0; i < size; ++i) {
		count += got[i] != want[i];
	}
	return count;
}
}  // namespace

volatile uint32_t *const kSysTick = reinterpret_cast<volatile uint32_t *>(0xe000e010);

#if defined(CHECKED)

namespace {
const uint8_t *g_want[MOST];
int32_t g_different[MOST];
}  // namespace

void CheckRows(int32_t number, int32_t first, const uint8_t *rows, int32_t size)
{
	if (size > 0) {
		g_different[number] += Different(rows, g_want[number] + first, size);
	}
}

[[gnu::noinline]] int32_t Run()
{
	std::memset(g_arena, 0x5a, sizeof(g_arena));
	START
	INPUTS
	int32_t different = 0, count;
	LAYERS
	return different;
}

#else

constexpr uint32_t kPaint = 0xa5c3a5c3;

[[gnu::noinline]] bool RunAll()
{
	for (size_t k = 0; k < MODEL::kLayers; ++k) {
		if (!MODEL::RunLayer(g_arena, k)) {
			return false;
		}
	}
	return true;
}

[[gnu::noinline]] int32_t Run()
{
	std::memset(g_arena, 0x5a, sizeof(g_arena));
	START
	INPUTS
	uint32_t *top;
	asm volatile("mov %0, sp" : "=r"(top));
	for (volatile uint32_t *word = g_stack; word < top; ++word) {
		*word = kPaint;
	}
	kSysTick[1] = 0xffffff;
	kSysTick[2] = 0;
	kSysTick[0] = 5;
	const uint32_t before = kSysTick[2];
	const bool done = RunAll();
	const uint32_t after = kSysTick[2];
	const uint32_t *deepest = g_stack;
	while (*deepest == kPaint) {
		++deepest;
	}
	Say("ticks ", (before - after) & 0xffffff);
	Say("stack ", (top - deepest) * 4);
	int32_t different = done ? 0 : 1;
	OUTPUTS
	return different;
}

#endif

extern "C" [[noreturn]] void Main()
{
	const int32_t different = Run();
	Say("different ", different);
	const uint32_t done[] = {0x20026, 0};
	Call(0x20, done);
	for (;;) {
	}
}

extern "C" [[gnu::naked, noreturn]] void Start()
{
	asm volatile("ldr r0, =0xe000ed88\n ldr r1, =0x00f00000\n str r1, [r0]\n dsb\n isb\n b Main");
}

extern "C" [[noreturn]] void Fault();

// The C library's wants an operating system.
extern "C" [[noreturn]] void abort() { Fault(); }

extern "C" [[noreturn]] void Fault()
{
	Say("different -1\n");
	const uint32_t done[] = {0x20026, 1};
	Call(0x20, done);
	for (;;) {
	}
}

[[gnu::section(".vectors"), gnu::used]] const void *const kVectors[16] = {
	g_stack_end, reinterpret_cast<void *>(Start), reinterpret_cast<void *>(Fault), reinterpret_cast<void *>(Fault),
	reinterpret_cast<void *>(Fault), reinterpret_cast<void *>(Fault), reinterpret_cast<void *>(Fault),
};
