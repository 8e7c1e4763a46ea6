# SPDX-License-Identifier: Apache-2.0
"""How the maps of operators' links become the table of kernel sizes."""

from __future__ import annotations

from benchmarks.kernel_links import TFLM, Piece, pieces, used_bytes
from benchmarks.operator_links import tabulate
from tflm_zephyr.footprint.link_map import parse_map
from tflm_zephyr.kernels.code_size import Bytes, KernelRow

MAP = """
Memory Configuration

Name             Origin             Length             Attributes
FLASH            0x00000000         0x00400000         xr
RAM              0x20000000         0x00400000         xw
*default*        0x00000000         0xffffffff

Linker script and memory map

text            0x00000100      0x100
 .text._ZN6tflite12_GLOBAL__N_14EvalEP13TfLiteContextP10TfLiteNode
                0x00000100       0x40 /w/objects/tflite-micro__tensorflow__lite__micro__kernels__pad.cc.obj
 .text._ZN6tflite12Register_PADEv
                0x00000140       0x20 libtflm.a(pad.cc.obj)
 .text.AddOperator
                0x00000160        0x4 /w/Register_PAD.obj
 *fill*         0x00000164        0xc
 .text          0x00000170       0x90 /lib/libgcc.a(_udivmoddi4.o)

rodata          0x00000200       0x20
 .rodata.str1.1
                0x00000200       0x18 zephyr/libzephyr.a(printk.c.obj)
                                 0x30 (size before relaxing)
 .rodata.str1.1
                0x00000210       0x10 zephyr/libzephyr.a(fatal.c.obj)

datas           0x20000000        0x8 load address 0x00000220
 .data.g_value  0x20000000        0x8 libtflm.a(pad.cc.obj)

bss             0x20000008       0x10
 .bss.g_zeros   0x20000008       0x10 libcmsis_nn.a(arm_pad_s8.c.obj)

.debug_info     0x00000000     0x9000
 .debug_info    0x00000000     0x9000 libtflm.a(pad.cc.obj)
OUTPUT(a.elf elf32-littlearm)
"""


def test_pieces_of_a_map() -> None:
    found = {piece.name: (piece.flash_bytes, piece.ram_bytes) for piece in pieces(parse_map(MAP, where="map"))}
    assert found == {
        "tflm(pad).text._ZN6tflite12_GLOBAL__N_14EvalEP13TfLiteContextP10TfLiteNode": (0x40, 0),
        "tflm().text._ZN6tflite12Register_PADEv": (0x20, 0),  # in whichever object file the linker finds it first
        "libgcc.a(_udivmoddi4.o).text": (0x90, 0),
        "libzephyr.a(printk.c.obj).rodata.str1.1": (0x10, 0),  # up to the next: its other strings were merged
        "libzephyr.a(fatal.c.obj).rodata.str1.1": (0x10, 0),
        "tflm(pad).data.g_value": (8, 8),
        "tflm(arm_pad_s8).bss.g_zeros": (0, 0x10),
    }


def test_used_bytes_are_those_of_the_linker() -> None:
    assert used_bytes(parse_map(MAP, where="map")) == (0x220 + 8, 0x18)


def test_the_table_has_what_operators_share_once() -> None:
    own, shared = Piece(TFLM, "pad", ".text.a", 100, 0), Piece(TFLM, "", ".text.b", 30, 4)
    division, other = Piece("libgcc.a", "_div.o", ".text", 50, 0), Piece(TFLM, "add", ".text.c", 7, 0)
    found = {"Register_PAD": (own, shared, division), "Register_ADD": (shared, other, division)}
    groups, library, rows = tabulate(found, {"Register_PAD": 120, "Register_ADD": 60})
    assert library == {"libgcc.a(_div.o).text": Bytes(50, 0)}
    assert sorted(groups, key=lambda size: size.flash) == [Bytes(7, 0), Bytes(30, 4), Bytes(100, 0)]
    assert rows["Register_PAD"] == KernelRow(
        tuple(sorted((groups.index(Bytes(30, 4)), groups.index(Bytes(100, 0))))), ("libgcc.a(_div.o).text",), 120
    )
    assert set(rows["Register_PAD"].pieces) & set(rows["Register_ADD"].pieces) == {groups.index(Bytes(30, 4))}
