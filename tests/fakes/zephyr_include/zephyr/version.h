/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#define KERNEL_VERSION_STRING "4.1.0"
