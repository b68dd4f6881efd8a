"""What can be said about the workspace tool without cuDNN, and a few answers where cuDNN is installed."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import sys
from pathlib import Path

import pytest

if sys.version_info < (3, 11):
    pytest.skip("cudnn_workspaces reads TOML, which needs Python 3.11", allow_module_level=True)

from cudnn_workspaces.__main__ import main
from cudnn_workspaces.convolution import Direction, Layout, Precision, Shape, strides_of
from cudnn_workspaces.devices import DEVICES, load_devices
from cudnn_workspaces.library import CudnnError, Library
from cudnn_workspaces.plans import Planner
from cudnn_workspaces.sampling import MOST_TENSOR_BYTES, Kind, draw_shape
from cudnn_workspaces.survive import surviving_map

STEM = Shape(64, 3, 224, 224, 64, 7, 7, stride=2, padding_h=3, padding_w=3)
MIDDLE = Shape(64, 64, 56, 56, 64, 3, 3, padding_h=1, padding_w=1)


@pytest.fixture(scope="module")
def library() -> Library:
    try:
        return Library()
    except (CudnnError, OSError) as error:
        pytest.skip(f"needs cuDNN 9.8 or later: {error}")


def test_a_shape_knows_its_output_and_filter() -> None:
    assert STEM.output_dimensions == (64, 64, 112, 112)
    assert STEM.filter_dimensions == (64, 3, 7, 7)
    assert Shape(1, 8, 9, 9, 16, 3, 3, dilation=2, groups=4).output_dimensions == (1, 16, 5, 5)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n": 0}, "n is 0, expected at least 1"),
        ({"groups": 2}, "2 groups do not divide 3 input and 64 output channels"),
        ({"kernel_h": 300}, "the output would be -34 x 112"),
    ],
)
def test_an_impossible_shape_says_why(change: dict[str, int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Shape(**{**vars(STEM), **change})


def test_strides_are_dense_in_either_layout() -> None:
    assert strides_of((2, 3, 5, 7), Layout.NCHW) == (105, 35, 7, 1)
    assert strides_of((2, 3, 5, 7), Layout.NHWC) == (105, 1, 21, 3)


def test_the_catalogue_gives_clocks_that_its_peak_figures_imply() -> None:
    devices = load_devices()
    assert set(DEVICES) <= set(devices)
    assert devices["a100-40"].clock_khz == pytest.approx(1_410_000, rel=0.001)
    assert devices["h100-80"].memory_clock_khz == pytest.approx(2_619_000, rel=0.001)
    slice_of_h100 = devices["h100-80-mig-1g.10gb"]
    assert slice_of_h100.memory_clock_khz == pytest.approx(devices["h100-80"].memory_clock_khz, rel=0.001)
    assert json.loads(devices["t4"].to_json())["deviceVer"] == 750


def test_a_file_that_is_no_catalogue_is_named(tmp_path: Path) -> None:
    path = tmp_path / "gpus.toml"
    path.write_text("[[card]]\n")
    with pytest.raises(ValueError, match=r"gpus\.toml: expected a list of \[\[gpu\]\] entries"):
        load_devices(path)


@pytest.mark.parametrize("kind", Kind)
def test_drawn_shapes_follow_the_seed_and_stay_within_memory(kind: Kind) -> None:
    shapes = [draw_shape(random.Random(seed), kind) for seed in range(300)]
    assert shapes == [draw_shape(random.Random(seed), kind) for seed in range(300)]
    for shape in shapes:
        for tensor in (shape.input_dimensions, shape.output_dimensions, shape.filter_dimensions):
            assert math.prod(tensor) * 4 < MOST_TENSOR_BYTES
    assert any(shape.c_in % 2 for shape in shapes)
    assert any(shape.groups == shape.c_in > 1 for shape in shapes) == (kind is Kind.ANY)


def test_tasks_after_a_deadly_one_are_still_answered() -> None:
    def work(task: int) -> int:
        if task % 3 == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return 10 * task

    assert list(surviving_map(work, range(6))) == [0, None, 20, 30, None, 50]


def test_a_missing_cudnn_is_an_error_with_its_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--cudnn", str(tmp_path), "query", "64x3x224x224", "64x7x7"]) == 2
    assert "libcudnn.so.9: cannot load cuDNN" in capsys.readouterr().err


def test_a_malformed_size_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", "64x3x224", "64x7x7"]) == 2
    assert "input: expected 4 numbers with x between them, found '64x3x224'" in capsys.readouterr().err


def test_tensor_core_plans_copy_the_tensors_into_another_layout(library: Library) -> None:
    planner = Planner(library, load_devices()["a100-40"])
    input_bytes = math.prod(MIDDLE.input_dimensions) * 4
    first = {
        direction: planner.plans(MIDDLE, direction, Precision.FP32_TF32, Layout.NCHW)[0].bytes
        for direction in Direction
    }
    assert first[Direction.FORWARD] >= input_bytes
    assert first[Direction.FILTER_GRADIENT] >= 2 * input_bytes


def test_without_tensor_cores_nothing_is_copied(library: Library) -> None:
    planner = Planner(library, load_devices()["a100-40"])
    plans = planner.plans(MIDDLE, Direction.FORWARD, Precision.FP32, Layout.NCHW)
    assert plans[0].bytes < 2**20


def test_a_table_is_the_same_after_an_interruption(library: Library, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    from cudnn_workspaces.generate import Generator, Job

    generator = Generator(library, load_devices(), ("a100-40", "t4"))
    job = Job(seed=7, shapes=10, gpus=("a100-40", "t4"), formats=((Precision.FP32_TF32, Layout.NCHW),))
    path = tmp_path / "table.parquet"
    generator.write(job, path)
    whole = parquet.read_table(path)
    assert whole.num_rows == 30
    assert set(whole["status"].to_pylist()) == {"ok"}
    path.unlink()
    generator.write(job, path)
    assert parquet.read_table(path).equals(whole)
