# SPDX-License-Identifier: Apache-2.0
"""What an app prints: the lines of a self-test, built as the device builds them."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path

from tflm_zephyr.codegen import load_manifest

BANNER = "*** Booting Zephyr OS build v4.1.0 ***"


def begin(model: str = "sine", proto: int = 1, board: str = "mps2/an385") -> str:
    """The first record."""
    return (
        f"TFLM:begin app=demo proto={proto} board={board} model={model} sha256=0123456789abcdef "
        "kernels=reference tflm=8d404de7 zephyr=4.1.0"
    )


def self_test(
    outputs: Sequence[bytes] = (b"\x01\x02\x03",),
    *,
    model: str = "sine",
    status: str = "pass",
    ticks: int = 1234,
    line_bytes: int = 64,
    checksum: bool = False,
) -> list[str]:
    """All records of a self-test with one run."""
    lines = [begin(model), "TFLM:arena size=2048 used=1500 head=1000 tail=500 source=measured"]
    for index, data in enumerate(outputs):
        lines.append(f"TFLM:output run=0 index={index} type=int8 bytes={len(data)} crc32={zlib.crc32(data):08x}")
        for at in range(0, len(data), line_bytes):
            part = data[at : at + line_bytes].hex()
            lines.append(f"TFLM:data run=0 index={index} offset={at} hex={part}")
    lines.append(f"TFLM:ticks run=0 ticks={ticks} hz=25000000")
    if status != "none":
        lines += [f"TFLM:check run=0 index={index} result={status} exact=yes" for index in range(len(outputs))]
    return with_end(lines, status, checksum=checksum)


def with_end(lines: Sequence[str], status: str = "pass", *, checksum: bool = False) -> list[str]:
    """`lines` and the end record that fits them."""
    end = f"TFLM:end status={status} records={len(lines)}"
    if checksum:
        covered = "".join(f"{line}\n" for line in lines) + end
        end += f" crc32={zlib.crc32(covered.encode()):08x}"
    return [*lines, end]


def as_bytes(lines: Sequence[str]) -> bytes:
    """As Zephyr's console sends them."""
    return "".join(f"{line}\r\n" for line in lines).encode()


def lines_of(app: Path, *, status: str = "pass", board: str = "mps2/an385", sha256: str | None = None) -> bytes:
    """A self-test's console output from the app in the folder `app`, which has one model."""
    manifest = load_manifest(app)
    (model,) = manifest.models
    data = bytes(range(64))
    return as_bytes(
        with_end(
            [
                f"TFLM:begin app={manifest.name} proto=1 board={board} model={model} "
                f"sha256={sha256 or manifest.sha256[model][:16]} kernels=reference tflm=8d404de7 zephyr=4.1.0",
                "TFLM:arena size=2048 used=1500 head=1000 tail=500 source=estimated",
                f"TFLM:output run=0 index=0 type=int8 bytes=64 crc32={zlib.crc32(data):08x}",
                f"TFLM:data run=0 index=0 offset=0 hex={data.hex()}",
                "TFLM:ticks run=0 ticks=1234 hz=25000000",
                f"TFLM:check run=0 index=0 result={status}" + (" first=0 got=0 want=1" if status == "fail" else ""),
            ],
            status,
        )
    )
