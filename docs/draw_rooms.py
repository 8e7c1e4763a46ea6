# SPDX-License-Identifier: Apache-2.0
"""Draw docs/rooms.svg: the rooms of docs/architecture.md, and which room imports from which.

    python docs/draw_rooms.py

Rooms and their order come from the page's table, imports from the source files (`ast`; those inside functions and
under TYPE_CHECKING count). The same sources give the same bytes. tests/unit/test_rooms_picture.py compares.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from xml.sax.saxutils import escape

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parent / "tflm_zephyr"
TOP, LEFT = 28, 24
ROW, COLUMN = 40, 40  # pixels from one room to the next, down and right
BOX_WIDTH, BOX_HEIGHT = 132, 28
TEXT_WIDTH = 310  # right of the last box, for its description

STYLE = """\
  .page { fill: #ffffff } .box { fill: #eef3fb; stroke: #3d63a8 } .name { fill: #14213d }
  .what, .legend { fill: #4a5568 } .line { stroke: #b9c4d6; fill: none } .head { fill: #8292ad } .dot { fill: #3d63a8 }
  .name { font: 600 13px ui-monospace, "DejaVu Sans Mono", monospace }
  .what, .legend { font: 13px system-ui, "DejaVu Sans", sans-serif }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } .box { fill: #182338; stroke: #7aa2e8 } .name { fill: #e6edf7 }
    .what, .legend { fill: #a9b4c4 } .line { stroke: #3c485c } .head { fill: #75859f } .dot { fill: #8db4f5 }
  }"""


def rooms() -> dict[str, str]:
    """Each room with its short description, the table's text up to the first colon or semicolon; lowest room first."""
    section = (HERE / "architecture.md").read_text(encoding="utf-8").split("## Rooms")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (\w+) \| (.*) \|$", section, re.M)[1:]
    return {name: re.split(r"[:;]", text)[0].replace("`", "") for name, text in rows}


@cache
def imports() -> set[tuple[str, str]]:
    """Pairs (room that imports, room imported from). The root's imports are left out: no room imports those modules."""
    found = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        room = path.relative_to(PACKAGE).parts[0]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == PACKAGE.name:
                found |= {(room, _room(node.module or "", alias.name)) for alias in node.names}
    return {(here, there) for here, there in found if here != there and (PACKAGE / here).is_dir()}


def _room(module: str, name: str) -> str:
    """The room of `from module import name`."""
    first = [*module.split("."), name][1]
    return first if (PACKAGE / first).is_dir() else "root"


def picture() -> str:
    """The SVG: rooms down a stair; a line leads left from a room and up to each room that it imports from."""
    described, pairs = rooms(), imports()
    order = {name: number for number, name in enumerate(described)}
    width = 2 * LEFT + COLUMN * (len(order) - 1) + BOX_WIDTH + TEXT_WIDTH
    height = 2 * TOP + ROW * (len(order) - 1) + BOX_HEIGHT
    title = "Rooms of tflm_zephyr and their imports"
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{title}">',
        f"<title>{title}</title>",
        f"<style>\n{STYLE}\n</style>",
        f'<rect class="page" width="{width}" height="{height}" rx="8"/>',
    ]
    edges = sorted((order[here], order[there]) for here, there in pairs)
    for here in sorted({here for here, _ in edges}):
        left = min(there for other, there in edges if other == here)
        drawn.append(f'<path class="line" d="M{_x(here)} {_middle(here)}H{_line(left)}"/>')
    for there in sorted({there for _, there in edges}):
        last = max(here for here, other in edges if other == there)
        x, y = _line(there), _y(there) + BOX_HEIGHT
        drawn.append(f'<path class="line" d="M{x} {_middle(last)}V{y + 6}"/>')
        drawn.append(f'<path class="head" d="M{x} {y + 1}l-4 8h8z"/>')
    drawn += [f'<circle class="dot" cx="{_line(there)}" cy="{_middle(here)}" r="4.5"/>' for here, there in edges]
    for name, what in described.items():
        drawn += _box(order[name], name, what)
    drawn += _legend(width - LEFT)
    return "\n".join([*drawn, "</svg>"]) + "\n"


def _box(number: int, name: str, what: str) -> list[str]:
    x, baseline = _x(number), _middle(number) + 5
    shown = what.replace("<->", "↔").replace("->", "→")
    size = f'width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6"'
    return [
        f'<rect class="box" x="{x}" y="{_y(number)}" {size}/>',
        f'<text class="name" x="{x + BOX_WIDTH // 2}" y="{baseline}" text-anchor="middle">{escape(name)}</text>',
        f'<text class="what" x="{x + BOX_WIDTH + 12}" y="{baseline}">{escape(shown)}</text>',
    ]


def _legend(right: int) -> list[str]:
    lines = ("A dot: the room at its right imports from", "the room above it. All arrows point up.")
    x = right - 286
    return [
        f'<circle class="dot" cx="{x - 12}" cy="{TOP + 9}" r="4.5"/>',
        *(f'<text class="legend" x="{x}" y="{TOP + 14 + 18 * n}">{line}</text>' for n, line in enumerate(lines)),
    ]


def _x(number: int) -> int:
    return LEFT + COLUMN * number


def _y(number: int) -> int:
    return TOP + ROW * number


def _middle(number: int) -> int:
    return _y(number) + BOX_HEIGHT // 2


def _line(number: int) -> int:
    """The x of the line that leads up to a room: left of the box below it."""
    return _x(number) + COLUMN // 2


if __name__ == "__main__":
    (HERE / "rooms.svg").write_text(picture(), encoding="utf-8")
