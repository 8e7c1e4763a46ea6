# SPDX-License-Identifier: Apache-2.0
"""Output of a linker, as west shows it."""

from __future__ import annotations

LD = "/usr/lib/gcc/arm-none-eabi/12.2.1/../../../arm-none-eabi/bin/ld.bfd: "


TABLE = [
    "Memory region         Used Size  Region Size  %age Used",
    "           FLASH:       58596 B       192 KB     29.80%",
    "             RAM:         16 KB       168 KB      4.43%",
    "        IDT_LIST:          0 GB        32 KB      0.00%",
    "Generating files from /b/zephyr/zephyr.elf for board: nrf9160dk",
]
