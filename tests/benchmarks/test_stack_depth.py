# SPDX-License-Identifier: Apache-2.0
"""Frames and depths from a listing as objdump writes it."""

from __future__ import annotations

from tests.helpers.stack_depth import RECURSION_BYTES, VARIABLE_BYTES, Depths, called, functions, named

LISTING = """
a.elf:     file format elf32-littlearm

Disassembly of section .text:

00008000 <eval>:
    8000:\tpush\t{r4, r5, lr}
    8002:\tsub\tsp, #20
    8004:\tbl\t8020 <deep>
    8008:\tbeq.n\t8004 <eval+0x4>
    800a:\tldr\tr3, [r0, #4]
    800c:\tblx\tr3
    800e:\tadd\tsp, #20
    8010:\tpop\t{r4, r5, pc}

00008020 <deep>:
    8020:\tstmdb\tsp!, {r4, r5, r6, r7, r8, lr}
    8024:\tvpush\t{d8-d10}
    8028:\tsub.w\tsp, sp, #1024\t; 0x400
    802c:\tb.w\t8040 <leaf>

00008040 <leaf>:
    8040:\tstr.w\tlr, [sp, #-8]!
    8044:\tbx\tlr

00008050 <loops>:
    8050:\tpush\t{r4, lr}
    8052:\tbl\t8060 <back>

00008060 <back>:
    8060:\tpush\t{r3, lr}
    8062:\tbl\t8050 <loops>

00008070 <array>:
    8070:\tsub.w\tsp, sp, r3
    8074:\tbx\tr2
"""


def test_frames() -> None:
    found = functions(LISTING)
    assert {f.name: f.frame_bytes for f in found.values()} == {
        "eval": 32,
        "deep": 6 * 4 + 3 * 8 + 1024,
        "leaf": 8,
        "loops": 8,
        "back": 8,
        "array": 0,
    }
    assert {f.name for f in found.values() if f.indirect} == {"eval", "array"}
    assert {f.name for f in found.values() if f.variable} == {"array"}
    assert called(found) == {0x8020, 0x8040, 0x8050, 0x8060}
    assert named(found, "^le") == [0x8040]


def test_a_call_adds_the_deepest_below() -> None:
    depths = Depths(functions(LISTING), 40)
    assert depths.of(0x8020) == 1072 + 8
    assert depths.of(0x8000) == 32 + 1072 + 8
    assert depths.deepest([0x8040, 0x8000]) == 1112
    assert depths.deepest([]) == 0
    assert depths.allowances == set()


def test_a_call_through_a_pointer_takes_what_can_be_there() -> None:
    assert Depths(functions(LISTING), 5000).of(0x8000) == 32 + 5000


def test_what_cannot_be_known_is_an_allowance_that_is_named() -> None:
    depths = Depths(functions(LISTING), 0)
    assert depths.of(0x8050) == 8 + 8 + RECURSION_BYTES
    assert depths.of(0x8070) == VARIABLE_BYTES
    assert depths.allowances == {"loops: recursion", "array: variable frame"}


def test_an_address_outside_takes_nothing() -> None:
    assert Depths(functions(LISTING), 0).of(0x1234) == 0
