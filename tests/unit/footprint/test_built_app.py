# SPDX-License-Identifier: Apache-2.0
"""Applications in build folders: what the linker's map, .config and devicetree say is left, and what is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.built_apps import CONFIG, MAP, build
from tests.helpers.small_elf import link, tools
from tflm_zephyr.errors import BuildError
from tflm_zephyr.footprint.built_app import Bytes, load_built_app
from tflm_zephyr.footprint.measurement import load_footprint

USED = Bytes(0x31500, 0xA00)


def test_a_link_that_overflowed(tmp_path: Path) -> None:
    app = load_built_app(build(tmp_path))
    assert (app.source.name, app.board.name, app.board.core) == ("sensor", "nrf9160dk@0.14.0/nrf9160/ns", "cortex-m33")
    assert (app.sizes, app.used) == (Bytes(0x30000, 0x2A000), USED)
    assert app.models == {"net": Bytes(0x1040, 0x840), "wake": Bytes(0x500, 0)} and app.shared == Bytes(0x2000, 0)
    assert app.left() == Bytes(0x30000, 0x2A000) - USED


@pytest.mark.parametrize(
    ("given", "replaced", "share"),
    [
        (("net",), ("net",), Bytes(0x1040, 0x840)),
        (("other",), (), Bytes(0, 0)),
        (("other", "third"), ("net", "wake"), Bytes(0x3540, 0x840)),
    ],
)
def test_what_a_model_leaves_that_is_replaced(
    given: tuple[str, ...], replaced: tuple[str, ...], share: Bytes, tmp_path: Path
) -> None:
    """TFLM and CMSIS-NN go with the last of the models."""
    app = load_built_app(build(tmp_path))
    assert app.replaced(given) == replaced and app.share(replaced) == share
    assert app.left(replaced) - app.left() == share


@pytest.mark.parametrize(
    ("config", "reserved"),
    [
        ("", 0),
        ("CONFIG_TFM_BL2=y\n", 749),
        ("CONFIG_BOOTLOADER_MCUBOOT=y\n", 128 * 3 * 8 + 4 * 8 + 16 + 336),
        ("CONFIG_BOOTLOADER_MCUBOOT=y\nCONFIG_ROM_END_OFFSET=0x80\n", 128 * 3 * 8 + 4 * 8 + 16 + 336 - 128),
        ("CONFIG_BOOTLOADER_MCUBOOT=y\nCONFIG_MCUBOOT_IMGTOOL_OVERWRITE_ONLY=y\n", 2 * 8 + 16 + 336),
    ],
)
def test_a_bootloaders_share_of_the_slot(config: str, reserved: int, tmp_path: Path) -> None:
    app = load_built_app(build(tmp_path, CONFIG + config))
    assert app.reserved == Bytes(reserved, 0) and bool(app.reserved_for) == bool(reserved)
    assert app.board.core == "cortex-m33+nodsp"
    assert app.left() == Bytes(0x30000 - reserved, 0x2A000) - USED


def test_sysbuild_names_the_application(tmp_path: Path) -> None:
    build(tmp_path / "sensor", name="zephyr.map")
    build(tmp_path / "mcuboot", text="of the bootloader")
    (tmp_path / "domains.yaml").write_text("default: sensor\nbuild_dir: b\ndomains: []\n")
    assert load_built_app(tmp_path).used == USED


def test_real_bytes_are_the_linkers(tmp_path: Path) -> None:
    small = link(tmp_path, tools("arm"))
    build(tmp_path, text=small.map.read_text(), name="zephyr.map")
    uses = {use.name: use.used_bytes for use in load_footprint(small.elf).regions}
    assert load_built_app(tmp_path).used == Bytes(uses["FLASH"], uses["RAM"])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda folder: (folder / "zephyr" / ".config").unlink(), "is no build folder of Zephyr"),
        (lambda folder: (folder / "zephyr" / "zephyr_pre0.map").unlink(), "no linker's map"),
        (lambda folder: (folder / "CMakeCache.txt").write_text(""), "names no application"),
        (lambda folder: build(folder, text=MAP.replace("FLASH ", "SRAM1 ")), "has no memory region FLASH or ROM"),
    ],
)
def test_what_is_missing_is_one_line(change: object, says: str, tmp_path: Path) -> None:
    build(tmp_path)
    change(tmp_path)  # type: ignore[operator]
    with pytest.raises(BuildError, match=says):
        load_built_app(tmp_path)
