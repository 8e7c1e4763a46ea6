# SPDX-License-Identifier: Apache-2.0
"""Ways as dots: RAM and flash against time, numbered, the taken one with a ring, the recommended one green."""

from __future__ import annotations

from typing import Any

from tflm_zephyr.page.drawing import Picture, inline
from tflm_zephyr.page.ways_picture import ways_pictures


def way(ram: int | None, flash: int | None, cycles: int | None, **marks: bool) -> dict[str, Any]:
    return {"ram_bytes": ram, "flash_bytes": flash, "estimated_cycles": cycles, **marks}


def dots(picture: Picture) -> list[tuple[str, float, float]]:
    return [(shape.look, shape.x, shape.y) for shape in picture.shapes if shape.radius == 6]


WAYS = [
    way(4000, 30_000, 1_000_000, taken=True),
    way(1000, 20_000, 2_000_000, recommended=True),
    way(2000, None, 3_000_000),
]


def test_places_are_proportional_to_the_figures() -> None:
    ram, flash = ways_pictures(WAYS)
    placed = sorted((x, y) for _, x, y in dots(ram))
    (x1, y2), (x2, y3), (x4, y1) = placed
    assert abs((x4 - x1) - 3 * (x2 - x1)) < 0.01 and abs((y1 - y3) - 2 * (y1 - y2)) < 0.01
    assert len(dots(flash)) == 2  # the third one's flash is not known
    assert {shape.text for shape in ram.shapes if shape.look == "name"} == {"1", "2", "3"}


def test_the_taken_and_the_recommended_way_stand_out() -> None:
    ram, _ = ways_pictures(WAYS)
    (ring,) = ((shape.x, shape.y) for shape in ram.shapes if shape.radius == 10)
    assert ring in [(x, y) for look, x, y in dots(ram) if look == "intermediate"]
    assert [look for look, *_ in dots(ram)].count("shared") == 1


def test_ways_that_lie_together_have_one_label() -> None:
    (ram, *_) = ways_pictures([way(1000, 1000, 1000), way(1001, 1000, 1001), way(100, 100, 500)])
    assert sorted(shape.text for shape in ram.shapes if shape.look == "name") == ["1, 2", "3"]


def test_without_cycles_it_is_ram_against_flash() -> None:
    (only,) = ways_pictures([way(1000, 9000, None), way(3000, 3000, None), way(None, None, None)])
    assert only.title == "RAM of the models to the right, flash of the models upwards"
    assert len(dots(only)) == 2
    assert ways_pictures([way(1000, None, None)]) == []


def test_all_that_is_drawn_is_inside() -> None:
    for top in (1, 7, 33, 999, 52_000_001):
        for picture in ways_pictures([way(top, 3 * top, 7 * top), way(top // 2, top, top)]):
            assert all(0 <= s.x <= picture.width and 0 <= s.y <= picture.height for s in picture.shapes)
            assert 2 <= sum(shape.look == "tick" and shape.anchor == "end" for shape in picture.shapes) <= 8


def test_a_title_is_text() -> None:
    assert 'aria-label="a&lt;b&quot;"' in inline(Picture('a<b"', 10, 10, []))
