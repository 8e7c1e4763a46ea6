# SPDX-License-Identifier: Apache-2.0
"""The beginning of C++ programs that run in QEMU without an operating system."""

from __future__ import annotations

START = """
#include <cstdint>
#include <cstddef>

extern "C" {

extern uint32_t _stack_end, _data_start, _data_end, _data_load, _bss_start, _bss_end;
int main();

static int Call(int what, const void *with)
{
	register int r0 asm("r0") = what;
	register const void *r1 asm("r1") = with;
	asm volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
	return r0;
}

void Reset()
{
	for (uint32_t *to = &_data_start, *from = &_data_load; to < &_data_end;) {
		*to++ = *from++;
	}
	for (uint32_t *to = &_bss_start; to < &_bss_end;) {
		*to++ = 0;
	}
#if defined(__ARM_FP) || defined(__ARM_FEATURE_MVE)
	*reinterpret_cast<volatile uint32_t *>(0xe000ed88) |= 0xf << 20;
	asm volatile("dsb");
	asm volatile("isb");
#endif
	main();
	const uint32_t stop[] = {0x20026, 0};
	Call(0x20, stop);
	for (;;) {
	}
}

void Fault()
{
	Call(0x04, "fault\\n");
	const uint32_t stop[] = {0x20024, 1};
	Call(0x20, stop);
	for (;;) {
	}
}

__attribute__((section(".vectors"), used)) const void *const vectors[16] = {
	&_stack_end, reinterpret_cast<void *>(Reset), reinterpret_cast<void *>(Fault), reinterpret_cast<void *>(Fault),
	reinterpret_cast<void *>(Fault), reinterpret_cast<void *>(Fault), reinterpret_cast<void *>(Fault)};

static volatile uint32_t *const kSysTick = reinterpret_cast<volatile uint32_t *>(0xe000e010);

static inline void StartTicks()
{
	kSysTick[1] = 0xffffff;
	kSysTick[2] = 0;
	kSysTick[0] = 5;
}

static inline uint32_t Ticks()
{
	return 0xffffff - kSysTick[2];
}

static void Print(const char *name, uint32_t value)
{
	char line[] = "                00000000\\n";
	for (int k = 0; name[k] != 0; ++k) {
		line[k] = name[k];
	}
	for (int k = 0; k < 8; ++k) {
		line[23 - k] = "0123456789abcdef"[value & 15];
		value >>= 4;
	}
	Call(0x04, line);
}

"""
"""The beginning of a program without an operating system: the vectors, a timer's ticks, and Print() by semihosting."""
