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
