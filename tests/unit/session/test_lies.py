# SPDX-License-Identifier: Apache-2.0
"""A device that does not tell the truth is told so in one line, in time, and never taken for the one expected."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.fakes.liar import Liar, Lie, Tensor
from tflm_zephyr.errors import DeviceError
from tflm_zephyr.session.interface import Session
from tflm_zephyr.session.opening import open_session
from tflm_zephyr.session.target import Target

WHOLE = "0123456789abcdef" * 4
GOOD = Tensor("in")


@contextmanager
def opened(lie: Lie = lambda _: None, expect: str = "", **facts: object) -> Iterator[tuple[Session, Liar]]:
    with Liar(lie, **facts) as device:
        want = {"net": expect} if expect else {}
        target = Target(port=device.port, expect=want, reply_timeout_s=1.0, run_timeout_s=1.0)
        with open_session(target) as session:
            yield session, device


@pytest.mark.parametrize("told", [WHOLE[:16], WHOLE, WHOLE[:20].upper()])
def test_the_start_of_the_hash_says_which_model_it_is(told: str) -> None:
    with opened(sha256=told, expect=WHOLE) as (session, _):
        assert session.hello.runs(WHOLE)
        assert not session.hello.runs("f" * 64)


@pytest.mark.parametrize("told", ["", WHOLE[:15], WHOLE + "0", "no digits in hex", " 123456789abcdef"])
def test_no_hash_is_no_start_of_any(told: str) -> None:
    with pytest.raises(DeviceError, match="is not 16 to 64 hex digits of a SHA-256"), opened(sha256=told):
        pass


def test_another_hash_is_another_model() -> None:
    with pytest.raises(DeviceError, match="another model is there"), opened(expect="f" * 64):
        pass


def test_a_version_that_was_not_asked_for_is_told() -> None:
    with (
        pytest.raises(DeviceError, match=r"speaks version 7 of the link's protocol, this tool version 1\. Generate"),
        opened(version=7),
    ):
        pass


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"payload": 63}, "a payload of 63 and a window of 2048 bytes"),
        ({"window": 0}, "a payload of 512 and a window of 0 bytes"),
        ({"hz": 0}, "0 ticks per second"),
        ({"models": 0}, "no model is there"),
        ({"outputs": ()}, "1 inputs, 0 outputs, 2 tensors"),
        ({"inputs": (2,)}, "an input or output is none of the tensors"),
        ({"tensors": (GOOD, Tensor("out", bytes=3))}, r"tensor 1 \(out\), int8 of shape \[1, 4\], has 3 bytes"),
        ({"tensors": (GOOD, Tensor("out", bytes=2**32 - 1))}, r"int8 of shape \[1, 4\], has 4294967295 bytes"),
        ({"tensors": (GOOD, Tensor("out", type=0))}, r"float32 of shape \[1, 4\], has 4 bytes"),
        ({"tensors": (GOOD, Tensor("out", shape=(-1, -4)))}, r"int8 of shape \[-1, -4\], has 4 bytes"),
        ({"tensors": (GOOD, Tensor("out", bytes=0))}, r"tensor 1 \(out\), an input or output, has .* and 0 bytes"),
        ({"tensors": (Tensor("in", scale=math.nan), GOOD)}, r"tensor 0 \(in\), an input or output, has the scale nan"),
        ({"tensors": (GOOD, Tensor("out", scale=math.inf))}, "has the scale inf"),
        ({"tensors": (GOOD, Tensor("out", scale=-1.0))}, r"has the scale -1\.0"),
    ],
)  # fmt: skip
def test_a_hello_that_cannot_be_is_malformed(facts: dict[str, object], said: str) -> None:
    with pytest.raises(DeviceError, match=rf"the answer is not what the protocol says \(.*{said}"), opened(**facts):
        pass


def test_what_the_protocol_allows_passes() -> None:
    four_bits = Tensor("packed", type=17, bytes=2)
    apart = (Tensor("spelt", type=5, bytes=77), Tensor("nowhere", bytes=0), Tensor("none", scale=0.0))
    with opened(tensors=(GOOD, four_bits, *apart), payload=64, window=64) as (session, _):
        assert [tensor.bytes for tensor in session.hello.tensors] == [4, 2, 77, 0, 4]
        assert session.hello.tensors[4].scale is None


def test_names_do_nothing_to_a_terminal() -> None:
    tensors = (Tensor("in\x1b[2J"), Tensor("out\u202e\nx"))
    with opened(app="\x1b[2Ja\nall well", board="b\r\x9bK", model="\x1b]0;own\x07net", tensors=tensors) as (session, _):
        hello = session.hello
        said = (hello.app, hello.board, hello.model, *hello.models, *(tensor.name for tensor in hello.tensors))
        assert said == ("?[2Ja?all well", "b?K", "?]0;own?net", "?]0;own?net", "in?[2J", "out?x")
