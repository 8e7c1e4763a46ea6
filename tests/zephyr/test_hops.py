# SPDX-License-Identifier: Apache-2.0
"""Windows of a signal that overlap, on this machine: each hop's outputs are TFLM's of the whole window."""

from __future__ import annotations

import random
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers.checkout import ROOT
from tests.helpers.compiled_host import Checkouts, build, build_all, generated
from tests.helpers.hop_streams import check_stream
from tests.helpers.row_networks import row_network
from tflm_zephyr.cli.main import main
from tflm_zephyr.codegen.backends.compiled import runtime_of
from tflm_zephyr.codegen.generation import Generated
from tflm_zephyr.compiler.hop_proof import prove_hops
from tflm_zephyr.errors import ModelError, PlanError
from tflm_zephyr.host import run_many

pytestmark = pytest.mark.zephyr

NETWORKS, EACH = 120, 10
C_PROGRAM = """
#include "net.h"
#include <stdio.h>
#include <stdlib.h>
static int8_t rows[(NET_ROWS + 1) * 10];
static void expect(size_t count)
{
	if (net_rows_expected() != count || net_push_rows(rows, count + 1) == 0) exit(2);
	if (net_rows_expected() != count || (count > 0 && net_invoke() == 0)) exit(3);
}
static void push(size_t count)
{
	if (fread(rows, 10, count, stdin) != count || net_push_rows(rows, count) != 0) exit(4);
}
static void show(void)
{
	expect(0);
	if (net_invoke() != 0) exit(5);
	fwrite(net_output(), 1, NET_OUTPUT_ELEMENTS, stdout);
	expect(NET_HOP);
}
int main(void)
{
	if (net_init() != 0) return 1;
	for (int turn = 0; turn < 4; ++turn) {
		expect(NET_ROWS);
		push(30);
		expect(NET_ROWS - 30);
		push(NET_ROWS - 30);
		show();
		push(1);
		expect(1);
		push(1);
		show();
		if (turn % 2) push(1);
		if (turn < 2 && net_reset() != 0) return 6;
		if (turn >= 2) net_drop_rows();
	}
	return 0;
}
"""


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize(
    ("name", "hop"), [("kws_ref_model", 2), ("kws_ref_model", 6), ("micro_speech_quantized", 2), ("person_detect", 8)]
)
def test_streams_of_shared_models(
    name: str, hop: int, fast: bool, tmp_path: Path, checkouts: Checkouts, shared: Path
) -> None:
    model = shared / "models" / f"{name}.tflite"
    made = generated(model, tmp_path / "app", "cmsis_nn", checkouts.revision, hop=hop, fast=fast)
    check_stream(build(made, tmp_path / "src", checkouts), 20 if name == "person_detect" else 120)


def planted(made: Generated, what: str) -> Generated:
    """The app with a fault in its program, which the proof refuses."""
    (model,) = made.spec.models
    runtime = runtime_of(model)
    hop, layer = runtime.program.hop, runtime.program.streaming_layer
    assert hop is not None
    assert layer is not None
    if what == "a row short":
        k = next(k for k, one in enumerate(hop.buffers) if one.base and one.base < one.new)
        short = replace(hop.buffers[k], base=hop.buffers[k].base + 1)
        hop = replace(hop, buffers=(*hop.buffers[:k], short, *hop.buffers[k + 1 :]))
    elif what == "no move":
        hop = replace(hop, moves=hop.moves[:-1])
    else:
        hop = replace(hop, invoked=tuple(call for call in hop.invoked if not (call.ahead and call.member == 1)))
    segment = replace(layer, segment=replace(layer.segment, hop=hop))
    layers = tuple(segment if one is layer else one for one in runtime.program.layers)
    program = replace(runtime.program, layers=layers)
    with pytest.raises(PlanError):
        prove_hops(program, segment)
    return replace(made, spec=replace(made.spec, models=(replace(model, runtime=replace(runtime, program=program)),)))


@pytest.mark.parametrize("what", ["a row short", "no move", "a first row as it was"])
def test_planted_faults_change_outputs(what: str, tmp_path: Path, checkouts: Checkouts, shared: Path) -> None:
    model = shared / "models" / "kws_ref_model.tflite"
    made = generated(model, tmp_path / "app", "cmsis_nn", checkouts.revision, hop=2, fast=True)
    with pytest.raises(AssertionError, match=r"window \d of net differs"):
        check_stream(build(planted(made, what), tmp_path / "src", checkouts))


def test_a_library_in_c_forgets_rows_in_the_middle_of_a_hop(tmp_path: Path, checkouts: Checkouts, shared: Path) -> None:
    """Windows of kws_ref_model (49 rows of 10 bytes), and a hop of 2 rows each, behind reset and drop_rows."""
    model, out = shared / "models" / "kws_ref_model.tflite", tmp_path / "net"
    argv = ["library", str(model), "-o", str(out), "--name", "net", "--hop", "2", "--fast-kernels"]
    assert main([*argv, "--kernels", "cmsis_nn", "--core", "cortex-m3"]) == 0
    rng = random.Random(1)
    signals = [rng.randbytes(510) for _ in range(4)]
    windows = [signal[at : at + 490] for signal in signals for at in (0, 20)]
    pushed = b"".join(signal + (b"?" * 10 if turn % 2 else b"") for turn, signal in enumerate(signals))
    (out / "main.c").write_text(C_PROGRAM)
    subprocess.run(["gcc", "-std=c99", "-Wall", "-Werror", "-Iinclude", "-c", "main.c"], cwd=out, check=True)
    stubs = ROOT / "tests" / "fakes" / "zephyr_include"
    sources = [*sorted((out / "src" / "models").glob("*.cpp")), *(out / "src" / "models").glob("*.S")]
    weights = f'-DTFLM_WEIGHTS_FILE="{out / "src" / "models" / "net_weights.bin"}"'
    command = [
        "g++",
        "-std=c++17",
        "-w",
        "-fwrapv",
        "-Iinclude",
        "-Iinclude/tflm_zephyr",
        "-Isrc",
        f"-I{stubs}",
        weights,
    ]
    command += [*checkouts.tflm_flags(), f"-I{checkouts.cmsis_nn / 'Include'}", "main.o", *map(str, sources)]
    subprocess.run([*command, str(checkouts.library()), "-o", "main"], cwd=out, check=True)
    ran = subprocess.run([out / "main"], input=pushed, capture_output=True, check=False)
    assert ran.returncode == 0
    want = run_many(model.read_bytes(), [[window] for window in windows]).runs
    assert ran.stdout == b"".join(outputs[0] for outputs in want)


def slides_by(path: Path, hop: int, folder: Path, checkouts: Checkouts) -> bool:
    """Whether a layer keeps rows when the window moves; where none does, the reason names a layer or an input."""
    try:
        generated(path, folder, "cmsis_nn", checkouts.revision, hop=hop)
    except ModelError as error:
        assert "layer" in error.what
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["int8", "int16", "float32"])
@pytest.mark.parametrize("hop", [1, 2, 3, 4])
def test_streams_of_random_networks(hop: int, kind: str, tmp_path: Path, checkouts: Checkouts) -> None:
    paths = [tmp_path / f"{number}.tflite" for number in range(NETWORKS if kind == "int8" else NETWORKS // 4)]
    for number, path in enumerate(paths):
        path.write_bytes(row_network(1000 * hop + number, kind=kind))
    able = [path for path in paths if slides_by(path, hop, tmp_path, checkouts)]
    assert len(able) > len(paths) // 8
    for first in range(0, len(able), EACH):
        folder = tmp_path / str(first)
        made = generated(able[first : first + EACH], folder / "app", "cmsis_nn", checkouts.revision, hop=hop)
        for net in build_all(made, folder / "src", checkouts):
            check_stream(net)
