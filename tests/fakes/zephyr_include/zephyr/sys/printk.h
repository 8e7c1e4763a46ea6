/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include <cstdarg>
#include <cstdio>
#define printk(...) printf(__VA_ARGS__)
#define snprintk(...) snprintf(__VA_ARGS__)
#define vprintk(format, args) vprintf(format, args)
#define vsnprintk(buffer, size, format, args) vsnprintf(buffer, size, format, args)
