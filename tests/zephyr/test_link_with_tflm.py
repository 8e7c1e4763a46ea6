# SPDX-License-Identifier: Apache-2.0
"""The generated app's side of the link around TFLM itself, compiled for this host under ASan and UBSan.

Of a workspace it needs TFLM's sources, nothing of Zephyr.
"""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.fakes.link.toy import CHECKED, HERE, ToyLink
from tests.helpers.model_builder import ModelBuilder
from tests.helpers.small_models import dense
from tflm_zephyr.build.workspace import Workspace
from tflm_zephyr.codegen.generation import AppRequest, generate
from tflm_zephyr.codegen.rendering import render
from tflm_zephyr.codegen.spec import AppSpec
from tflm_zephyr.device.session.device_session import DeviceSession
from tflm_zephyr.model.reader import parse_model
from tflm_zephyr.options import AppConfig, ModelConfig
from tflm_zephyr.tflm.revision import tflm_of

pytestmark = pytest.mark.zephyr

LEVELS = random.Random(3).choices(range(-8, 8), k=15)
ARENA_BYTES = 1 << 16  # pointers are wider here than where it was estimated


def packed(levels: list[int]) -> bytes:
    """Two int4 to a byte, the first in its lower half; an odd one's upper half is 0."""
    nibbles = [level & 15 for level in levels] + [0] * (len(levels) % 2)
    return bytes(low | high << 4 for low, high in zip(nibbles[::2], nibbles[1::2], strict=True))


def int4() -> bytes:
    """A FULLY_CONNECTED of 5 to 3 with an odd number of int4 weights."""
    model = ModelBuilder()
    main = model.subgraph()
    x = main.tensor((1, 5), "int8", "x", scale=0.5)
    w = main.tensor((3, 5), "int4", "w", scale=0.25, data=packed(LEVELS))
    y = main.tensor((1, 3), "int8", "y", scale=0.5)
    main.op("FULLY_CONNECTED", [x, w, -1], [y], options={"fused_activation_function": 0})
    main.inputs, main.outputs = [x], [y]
    return model.finish()


MODELS = {"int4": int4(), "int8": dense()}


def generated(folder: Path, workspace: Workspace) -> AppSpec:
    """The app's files in `folder`."""
    for name, data in MODELS.items():
        (folder / f"{name}.tflite").write_bytes(data)
    models = tuple(ModelConfig(folder / f"{name}.tflite") for name in MODELS)
    config = AppConfig(models, kernels="reference", model_data="array", host_link=True)
    tflm = tflm_of(workspace.tflm_dir, workspace.tflm_revision, ["reference"])
    spec = generate(AppRequest(config, folder, tflm, golden=False)).spec
    for path, data in render(spec).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    includes = "".join(f'#include "models/{name}.hpp"\n' for name in MODELS)
    all_ = ", ".join(f"&models::{name}::kLinkModel" for name in MODELS)
    text = f"static const tflm_link::Model *const kAll[] = {{{all_}}};\nconstexpr uint8_t kAllCount = {len(MODELS)};\n"
    (folder / "src" / "all_models.hpp").write_text(includes + text)
    return spec


@pytest.fixture(scope="module")
def program(workspace: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    assert workspace.tflm_dir is not None
    folder = tmp_path_factory.mktemp("tflm")
    spec = generated(folder, workspace)
    argv = [*(["ccache"] if shutil.which("ccache") else []), "g++", "-std=c++17", "-fno-exceptions", "-fno-rtti", "-c"]
    argv += ["-DTF_LITE_STATIC_MEMORY", '-DMODELS="all_models.hpp"', f"-I{folder / 'src'}", f"-I{HERE}"]
    argv += [f"-DCONFIG_TFLM_APP_{name.upper()}_ARENA_SIZE={ARENA_BYTES}" for name in MODELS]
    argv += ["-DCONFIG_TFLM_APP_HOST_LINK=1"]
    for name in spec.tflm.include_dirs:
        argv += ["-isystem", str(workspace.tflm_dir / name)]
    # TFLM's own code is checked for what it reads and writes, the app's for all.
    theirs = [(workspace.tflm_dir / name, ("-w", "-O0", "-fsanitize=address")) for name in spec.tflm.shared_sources]
    names = [f"src/link/{name}.cpp" for name in ("device", "frame", "watch")]
    names += [f"src/models/{name}{part}.cpp" for name in MODELS for part in ("", "_data", "_golden")]
    own = [folder / name for name in names] + [HERE / "posix_port.cpp", HERE / "tflm_main.cpp"]
    jobs = theirs + [(path, ("-Wall", "-Wextra", "-Werror", *CHECKED)) for path in own]

    def compiled(number: int) -> Path:
        path, flags = jobs[number]
        made = folder / f"{number}.o"
        done = subprocess.run([*argv, *flags, str(path), "-o", str(made)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return made

    with ThreadPoolExecutor(2) as pool:
        objects = [str(made) for made in pool.map(compiled, range(len(jobs)))]
    done = subprocess.run(["g++", *CHECKED, *objects, "-o", str(folder / "app")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "app"


@pytest.fixture
def session(program: Path) -> Iterator[DeviceSession]:
    session = DeviceSession(ToyLink(program), model="int4", reply_timeout_s=10)
    session.open()
    with session:
        yield session


def test_an_int4_constant_has_two_elements_to_a_byte(session: DeviceSession) -> None:
    weights = session.hello.tensors[1]
    assert (weights.name, weights.type, weights.shape, weights.bytes) == ("w", "int4", (3, 5), 8)
    assert session.tensor(1) == packed(LEVELS)


def test_int4_weights_run_and_capture_as_their_levels(session: DeviceSession) -> None:
    inputs = [4, -8, 12, 100, -3]
    wanted = []
    for row in range(3):
        total = sum(level * value for level, value in zip(LEVELS[5 * row : 5 * row + 5], inputs, strict=True))
        # 0.5 * 0.25 / 0.5: a quarter, halves away from zero.
        wanted.append(max(-128, min(127, int(abs(total) / 4 + 0.5) * (1 if total >= 0 else -1))))
    data = bytes(value & 255 for value in inputs)
    plain, captured = session.invoke([data]), session.capture([data])
    assert [byte - 256 * (byte > 127) for byte in plain.outputs[0]] == wanted
    assert captured.outputs == plain.outputs
    (operator,) = captured.operators
    assert (operator.name, operator.tensor, operator.data) == ("FULLY_CONNECTED", 2, plain.outputs[0])
    assert session.tensor(1) == packed(LEVELS)  # TFLM unpacks them elsewhere


def test_every_constant_of_every_model_is_that_of_its_file(session: DeviceSession) -> None:
    for name, data in MODELS.items():
        session.select(name)
        for tensor in parse_model(data).main.tensors:
            if tensor.data is not None:
                assert session.hello.tensors[tensor.index].bytes == len(tensor.data)
                assert session.tensor(tensor.index) == bytes(tensor.data)
