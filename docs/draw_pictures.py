# SPDX-License-Identifier: Apache-2.0
"""Draw the README's pictures in docs/pictures: an arena before and after, a terminal, and a report's screenshot.

    python docs/draw_pictures.py
    python docs/draw_pictures.py --screenshot

The first writes arena.svg and terminal.svg, the output of

    tflm-zephyr plan residual.tflite --kernels cmsis_nn --core cortex-m4 --map --svg arena.svg

The same sources give the same bytes; tests/unit/test_pictures.py compares. The model is a small int8 network with
residual connections, made here. The second writes report.png, the arena of `tflm-zephyr report residual.tflite -o
report.html` in a headless Chromium (CHROMIUM names it; default: chromium-headless-shell): `pip install '.[browser]'`.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
PICTURES = HERE / "pictures"
sys.path.insert(0, str(HERE.parent))  # tests.helpers has the writer of models

from rich.console import Console  # noqa: E402

from tests.helpers.model_builder import ModelBuilder  # noqa: E402
from tflm_zephyr.cli.commands.plan import do_plan  # noqa: E402
from tflm_zephyr.cli.main import build_parser, main  # noqa: E402

NAME = "residual.tflite"
PLAN = ("plan", NAME, "--kernels", "cmsis_nn", "--core", "cortex-m4", "--map")
COLUMNS = 100
# rich's own form loads a font from the network.
SVG_FORM = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="A terminal">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
  font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: system-ui, sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g></g></svg>
"""


def residual_network() -> bytes:
    """Three blocks of two convolutions each, whose input is added to their output; then pooling and classes."""
    model = ModelBuilder()
    graph = model.subgraph("main")
    size, channels = 32, 16
    last = first = graph.tensor((1, size, size, 3), "int8", "image", scale=0.0078125)
    last = _convolution(graph, last, (size, size, channels), 3, "stem")
    for number in range(3):
        inner = _convolution(graph, last, (size, size, channels), 3, f"block{number}/conv1")
        inner = _convolution(graph, inner, (size, size, channels), 3, f"block{number}/conv2")
        added = graph.tensor((1, size, size, channels), "int8", f"block{number}/add", scale=0.05)
        graph.op("ADD", [last, inner], [added])
        last = added
        if number < 2:
            size, channels = size // 2, channels * 2
            last = _convolution(graph, last, (size, size, channels), 3, f"down{number}", stride=2)
    classes = graph.tensor((1, 10), "int8", "classes", scale=0.1)
    pooled = graph.tensor((1, 1, 1, channels), "int8", "pool", scale=0.05)
    options = {"filter_width": size, "filter_height": size, "stride_w": size, "stride_h": size, "padding": 1}
    graph.op("AVERAGE_POOL_2D", [last], [pooled], options=options)
    weights = graph.tensor((10, channels), "int8", "classes/weights", scale=0.01, data="random")
    flat = graph.tensor((1, channels), "int8", "flat", scale=0.05)
    shape = graph.tensor((2,), "int32", "shape", data=(1).to_bytes(4, "little") + channels.to_bytes(4, "little"))
    graph.op("RESHAPE", [pooled, shape], [flat])
    graph.op("FULLY_CONNECTED", [flat, weights, -1], [classes])
    answer = graph.tensor((1, 10), "int8", "answer", scale=1 / 256, zero_point=-128)
    graph.op("SOFTMAX", [classes], [answer], options={"beta": 1.0})
    graph.inputs, graph.outputs = [first], [answer]
    return model.finish()


def _convolution(graph, source, shape, kernel, name, *, stride=1):  # type: ignore[no-untyped-def]
    height, width, channels = shape
    depth = graph.tensors[source].shape[3]
    weights = graph.tensor(
        (channels, kernel, kernel, depth), "int8", f"{name}/weights", scale=[0.01] * channels, data="random"
    )
    result = graph.tensor((1, height, width, channels), "int8", name, scale=0.05)
    options = {"stride_w": stride, "stride_h": stride, "dilation_w_factor": 1, "dilation_h_factor": 1}
    graph.op("CONV_2D", [source, weights, -1], [result], options=options)
    return result


@contextmanager
def model_here() -> Iterator[Path]:
    """A folder that holds the model and is the current one."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / NAME).write_bytes(residual_network())
        os.chdir(folder)
        try:
            yield folder
        finally:
            os.chdir(before)


def drawings() -> dict[str, str]:
    """The SVGs by file name."""
    with model_here() as folder:
        args = build_parser("tflm-zephyr").parse_args([*PLAN, "--svg", "arena.svg"])
        args.command_line = []
        done = do_plan(args, lambda text: None)
        assert done.terminal is not None
        console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, highlight=False)
        console.print(f"$ tflm-zephyr {' '.join(PLAN)}", style="bold")
        console.print(done.terminal(COLUMNS))
        shown = console.export_svg(title="", code_format=SVG_FORM, unique_id="terminal")
        return {"arena.svg": (folder / "arena.svg").read_text(encoding="utf-8"), "terminal.svg": shown}


def screenshot() -> bytes:
    """The first screen of the model's report, as a PNG."""
    from playwright.sync_api import sync_playwright

    with model_here() as folder, sync_playwright() as playwright:
        assert main(["report", NAME, "-o", "report.html"]) == 0
        program = shutil.which(os.environ.get("CHROMIUM", "chromium-headless-shell"))
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"], timeout=600_000)
        page = browser.new_page(viewport={"width": 1200, "height": 860})
        page.set_default_timeout(600_000)
        page.goto((folder / "report.html").as_uri(), timeout=600_000)
        page.locator(".arena").scroll_into_view_if_needed()
        page.evaluate("document.querySelector('.arena').scrollIntoView({behavior: 'instant'})")
        found: bytes = page.screenshot(timeout=600_000)
        browser.close()
        return found


if __name__ == "__main__":
    if "--screenshot" in sys.argv[1:]:
        (PICTURES / "report.png").write_bytes(screenshot())
    else:
        for file, text in drawings().items():
            (PICTURES / file).write_text(text, encoding="utf-8")
