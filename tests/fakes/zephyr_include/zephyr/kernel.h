/* SPDX-License-Identifier: Apache-2.0 */
/* As much of Zephyr's kernel API as a generated app's self-test calls, for a compiler on the host. */
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdio>
#define ARG_UNUSED(x) (void)(x)
#define K_SECONDS(s) (s)
inline uint32_t k_cycle_get_32() { static uint32_t cycles; return cycles += 1000; }
inline uint32_t sys_clock_hw_cycles_per_sec() { return 25000000; }
inline void k_sleep(int) {}
inline void k_str_out(char *text, size_t size) { fwrite(text, 1, size, stdout); }
/* A thread whose stack is an array, with CONFIG_THREAD_STACK_INFO as generated code sees it. */
struct k_thread { struct { uintptr_t start; size_t size; } stack_info; };
inline uint8_t fake_stack[64];
inline k_thread *k_current_get()
{
	static k_thread thread = {{reinterpret_cast<uintptr_t>(fake_stack), sizeof(fake_stack)}};
	return &thread;
}
inline int k_thread_stack_space_get(const k_thread *, size_t *unused)
{
	for (*unused = 0; *unused < sizeof(fake_stack) && fake_stack[*unused] == 0xaa; ++*unused) {}
	return 0;
}
