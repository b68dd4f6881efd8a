"""What the record of a training step says of small models."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from plimsoll_gpu.capture import capture
from plimsoll_gpu.graph import CaptureError
from plimsoll_gpu.step_events import (
    ACCUMULATE,
    ALLOCATE,
    BACKWARD,
    CONVOLVE,
    FREE,
    HOLD,
    LOSS,
    NODE,
    SCATTER,
    ZERO_GRAD,
    Steps,
    encode,
)
from plimsoll_gpu.steps import record_step


def recorded(model: nn.Module, *shape: int, dtype: torch.dtype = torch.float32, loss: Any = None) -> tuple[Any, Any]:
    model = model.to("meta")
    example = torch.empty(1, *shape, dtype=dtype, device="meta")
    graph = capture(model, example)
    return graph, record_step(model, {graph["inputs"][0]["name"]: example}, graph, loss)


def of(record: Any, code: int) -> list[list[int]]:
    return [event for event in record["events"] if event[0] == code]


def test_a_step_begins_with_the_batch_and_ends_with_a_gradient_of_every_weight() -> None:
    graph, record = recorded(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), 4)
    assert (record["precision"], record["loss"]) == ("fp32", "cross_entropy")
    assert "exact" not in record
    sizes = [record["sizes"][event[1]] for event in of(record, ALLOCATE)]
    assert sizes[:3] == [[0, 16], [0, 8], [0, 32]], "samples, their classes, and what the first layer makes of them"
    assert record["events"][:5] == [[ALLOCATE, 0], [ALLOCATE, 1], [HOLD, 0], [HOLD, 1], [ZERO_GRAD]]
    weights = [graph["weights"][event[2]]["name"] for event in of(record, ACCUMULATE)]
    assert sorted(weights) == ["0.bias", "0.weight", "2.bias", "2.weight"]


def test_every_buffer_is_freed_held_or_a_gradient() -> None:
    _, record = recorded(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.GELU(), nn.Flatten(2)), 3, 8, 8)
    ended = [event[1] for code in (FREE, HOLD, ACCUMULATE) for event in of(record, code)]
    assert sorted(ended) == list(range(len(of(record, ALLOCATE))))


def test_phases_stand_in_order() -> None:
    _, record = recorded(nn.Linear(4, 3), 4)
    phases = [event[0] for event in record["events"] if event[0] in (ZERO_GRAD, LOSS, BACKWARD)]
    assert phases == [ZERO_GRAD, LOSS, BACKWARD]


def test_the_backward_pass_names_the_nodes_of_the_forward_pass() -> None:
    graph, record = recorded(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)), 4)
    names = [graph["nodes"][event[1]]["name"] if len(event) > 1 else None for event in of(record, NODE)]
    assert names == ["0", "1", "2", None, "2", "1", "0"]


def test_convolutions_run_in_three_directions_but_not_towards_the_batch() -> None:
    _, record = recorded(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3), nn.Flatten()), 3, 8, 8)
    assert of(record, CONVOLVE) == [[CONVOLVE, 0], [CONVOLVE, 0], [CONVOLVE, 1], [CONVOLVE, 2], [CONVOLVE, 2]]


def test_a_frozen_weight_gets_no_gradient() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 3))
    model[0].requires_grad_(False)
    graph, record = recorded(model, 4)
    assert {graph["weights"][event[2]]["name"] for event in of(record, ACCUMULATE)} == {"1.weight", "1.bias"}


def test_a_tables_gradient_is_summed_by_index() -> None:
    _, record = recorded(nn.Sequential(nn.Embedding(50, 8), nn.Flatten(), nn.Linear(24, 3)), 3, dtype=torch.int64)
    ((_, *places),) = of(record, SCATTER)
    assert [record["sizes"][place] for place in places] == [[0, 3], [50, 0], [8, 0]]


def test_a_model_that_returns_a_number_is_its_own_loss() -> None:
    class Scored(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x).square().mean()

    _, record = recorded(Scored(), 4)
    assert record["loss"] == "own"
    assert len(of(record, HOLD)) == 2, "the batch and the loss"


def test_a_loss_can_be_given() -> None:
    _, record = recorded(nn.Linear(4, 3), 4, loss=lambda output: output.abs().mean())
    assert record["loss"] == "own"
    assert len(of(record, ACCUMULATE)) == 2


def test_a_size_that_is_no_multiple_is_said_not_to_be_exact() -> None:
    graph = {"nodes": [], "weights": []}
    record = encode(Steps([(ALLOCATE, 1000)], [(ALLOCATE, 501)]), graph, "fp32", "own")
    assert record["exact"] is False
    ((fixed, per_sample),) = record["sizes"]
    assert 900 < fixed + 251 * per_sample <= 1000


def test_a_step_that_depends_on_the_batch_is_refused() -> None:
    graph = {"nodes": [], "weights": []}
    with pytest.raises(CaptureError, match="depends on the batch"):
        encode(Steps([(FREE, 1)], [(FREE, 2)]), graph, "fp32", "own")
    with pytest.raises(CaptureError, match="1 events at 251, 0 at 127"):
        encode(Steps([(FREE, 1)], []), graph, "fp32", "own")
