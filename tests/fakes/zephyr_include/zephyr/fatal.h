/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
struct arch_esf;
inline void k_fatal_halt(unsigned int) {}
