# SPDX-License-Identifier: Apache-2.0
"""Build folders with as much of Zephyr's files as says what an application takes."""

from __future__ import annotations

from pathlib import Path

MAP = """
Memory Configuration

Name             Origin             Length             Attributes
FLASH            0x00050000         0x00030000         xr
RAM              0x20016000         0x0002a000         xw
IDT_LIST         0xffff7fff         0x00008000         xw
*default*        0x00000000         0xffffffff

Linker script and memory map

rom_start       0x00050000      0x400
text            0x00050400    0x31000
 .text          0x00050400     0x1000 libtflm_model_net.a(net.cpp.obj)
 .text          0x00051400     0x2000 libtflm_zephyr_core.a(conv.cc.obj)
 .text          0x00053400      0x500 libtflm_model_wake.a(wake.cpp.obj)
 .text          0x00053900    0x2db00 app/libapp.a(main.c.obj)
datas           0x20016000      0x100 load address 0x00081400
 .data          0x20016000       0x40 libtflm_model_net.a(net.cpp.obj)
bss             0x20016100      0x900
 .bss           0x20016100      0x800 libtflm_model_net.a(net.cpp.obj)
.debug_info     0x00000000   0x900000
 .debug_info    0x00000000     0x1000 libtflm_model_net.a(net.cpp.obj)
OUTPUT(zephyr/zephyr_pre0.elf elf32-littlearm)
"""
CONFIG = 'CONFIG_BOARD_TARGET="nrf9160dk@0.14.0/nrf9160/ns"\nCONFIG_ARCH="arm"\nCONFIG_CPU_CORTEX_M33=y\n'
DSP = "CONFIG_ARMV8_M_DSP=y\n"


def build(folder: Path, config: str = CONFIG + DSP, text: str = MAP, name: str = "zephyr_pre0.map") -> Path:
    """A build folder whose link, of an application with the models net and wake, overflowed by 0x1500 bytes."""
    image = folder / "zephyr"
    image.mkdir(parents=True, exist_ok=True)
    (image / ".config").write_text(config)
    (image / name).write_text(text)
    (image / "zephyr.dts").write_text("flash@0 { write-block-size = < 0x8 >; };")
    (folder / "CMakeCache.txt").write_text("APPLICATION_SOURCE_DIR:PATH=/somewhere/sensor\n")
    return folder
