# SPDX-License-Identifier: Apache-2.0
"""Footprints of apps that Zephyr built: the sums are those of the linker's own table."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.checkout import ROOT
from tests.helpers.zephyr_apps import Tool
from tflm_zephyr.footprint import attribution
from tflm_zephyr.footprint.elf import load_elf
from tflm_zephyr.footprint.link_map import parse_map
from tflm_zephyr.footprint.measurement import measure_footprint

pytestmark = [pytest.mark.zephyr, pytest.mark.usefixtures("workspace")]


@pytest.mark.parametrize("board", ["mps2/an385", "nrf9160dk/nrf9160/ns"])
@pytest.mark.parametrize("sample", ["hello_world", "digits"])
def test_sums_are_the_linkers(tool: Tool, apps: Path, sample: str, board: str) -> None:
    app = apps / sample
    tool("generate", "--app", ROOT / "samples" / sample / "app.yaml", "-o", app)
    built = tool("build", app, "--board", board, as_json=True)
    table = {region["name"]: region["used_bytes"] for region in built["footprint"]}
    assert table["FLASH"] > 0 and table["RAM"] > 0

    found = tool("footprint", app, "--board", board, "--against", built["elf"], as_json=True)
    assert {use["name"]: use["used_bytes"] for use in found["regions"]} == table
    assert found["source"] == "linker map"
    for region, used in table.items():
        assert sum(row["bytes"].get(region, 0) for row in found["rows"]) == used
    assert found["against"]["changes"] == []
    assert any("TF-M" in note for note in found["notes"]) == board.endswith("/ns")

    by_part = found["parts"]
    model = ROOT / "samples" / sample / f"{sample}.tflite"
    assert by_part[attribution.MODEL]["FLASH"] >= model.stat().st_size  # a plan adds metadata, and alignment
    assert by_part[attribution.MODEL]["FLASH"] < model.stat().st_size + 4096
    assert by_part[attribution.ARENA]["RAM"] > 0
    kernels = {
        name for row in found["rows"] if row["part"] == attribution.KERNELS for name in row["detail"].split(", ")
    }
    assert "FULLY_CONNECTED" in kernels or "CONV_2D" in kernels
    assert attribution.UNATTRIBUTED not in by_part

    # The same without the table to go by: from the sections alone, by the map and by symbols.
    elf = Path(built["elf"])
    image = load_elf(elf)
    link_map = parse_map(elf.with_suffix(".map").read_text(errors="replace"), where="map")
    for source in (link_map, None):
        uses = {use.name: use.used_bytes for use in measure_footprint(image, source).regions}
        assert uses == {name: table[name] for name in uses} and {"FLASH", "RAM"} <= set(uses)
