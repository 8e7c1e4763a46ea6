# SPDX-License-Identifier: Apache-2.0
"""The files that an app is generated from lie in the app."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.helpers.model_builder import chain
from tflm_zephyr.codegen import held_files
from tflm_zephyr.codegen.held_files import hold, with_held
from tflm_zephyr.errors import AppError
from tflm_zephyr.options import AppConfig, ModelConfig
from tflm_zephyr.tensors.dataset import load_dataset


@pytest.fixture
def config(tmp_path: Path) -> AppConfig:
    """A model with inputs and a plan outside of the app."""
    (tmp_path / "My Net-2.tflite").write_bytes(chain())
    (tmp_path / "plan.json").write_bytes(b"{}")
    np.savez(tmp_path / "data.npz", x=np.arange(640, dtype=np.int8).reshape(10, 64), y=np.arange(10))
    model = ModelConfig(
        tmp_path / "My Net-2.tflite", inputs=tmp_path / "data.npz", plan_file=tmp_path / "plan.json", runs=3
    )
    return AppConfig((model,))


def test_the_app_holds_copies_of_all(config: AppConfig, tmp_path: Path) -> None:
    app, (given,) = tmp_path / "app", config.models
    held, files = hold(config, app)
    (item,) = held.models
    assert item.label == "My Net-2" and item.model == app / "tflm/models/my_net_2.tflite"
    assert given.inputs is not None and given.plan_file is not None
    assert files == {
        "models/my_net_2.tflite": given.model.read_bytes(),
        "inputs/my_net_2/data.npz": given.inputs.read_bytes(),
        "plans/my_net_2.json": b"{}",
    }


def test_the_copies_hold_copies_of_the_same_bytes(config: AppConfig, tmp_path: Path) -> None:
    app = tmp_path / "app"
    held, files = hold(config, app)
    for path, data in files.items():
        (app / "tflm" / path).parent.mkdir(parents=True, exist_ok=True)
        (app / "tflm" / path).write_bytes(data)
    assert hold(held, app) == (held, files)
    assert with_held(config, app) == config  # the originals are there
    for path in ("My Net-2.tflite", "data.npz", "plan.json"):
        (tmp_path / path).unlink()
    assert with_held(config, app) == held


def test_a_copy_that_is_not_there_is_no_help(config: AppConfig, tmp_path: Path) -> None:
    (tmp_path / "My Net-2.tflite").unlink()
    assert with_held(config, tmp_path / "app") == config
    with pytest.raises(AppError, match=r"My Net-2\.tflite: cannot be read: No such file"):
        hold(config, tmp_path / "app")


@pytest.mark.parametrize("most", [300, 1])
def test_of_a_large_file_the_first_samples_are_held(
    config: AppConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(held_files, "MOST_INPUT_BYTES", most)
    _, files = hold(config, tmp_path / "app")
    (tmp_path / "cut.npz").write_bytes(files["inputs/my_net_2/data.npz"])
    cut = load_dataset(tmp_path / "cut.npz")
    assert len(cut) == {300: 4, 1: 3}[most]  # 64 + 8 bytes a sample; as many as the self-test runs, at least
    assert cut.y is not None and (cut.y == np.arange(len(cut))).all()
    assert (cut.inputs[0] == np.arange(640, dtype=np.int8).reshape(10, 64)[: len(cut)]).all()
    (model,) = config.models
    np.save(tmp_path / "data.npy", np.arange(640, dtype=np.int8).reshape(10, 64))
    alone = AppConfig((ModelConfig(model.model, inputs=tmp_path / "data.npy", runs=3),))
    (tmp_path / "cut.npy").write_bytes(hold(alone, tmp_path / "app")[1]["inputs/my_net_2/data.npy"])
    assert len(load_dataset(tmp_path / "cut.npy")) == {300: 4, 1: 3}[most]
