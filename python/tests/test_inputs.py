"""What a capture takes: one tensor or many, nested or named, with a loss or without."""

from __future__ import annotations

from collections import UserDict
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import plimsoll_gpu
from plimsoll_gpu import CaptureError, CaptureWarning, capture


class Two(nn.Module):
    """Takes an image and a label, one of them optional."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(8, 4)
        self.names = nn.Embedding(10, 4)

    def forward(self, image: torch.Tensor, label: torch.Tensor | None = None, twice: bool = False) -> Any:
        features = self.body(image)
        if label is not None:
            features = features + self.names(label)
        return {"features": [features, (features * 2,)] if twice else features, "nothing": None}


IMAGE, LABEL = torch.empty(2, 8), torch.empty(2, dtype=torch.long)


def test_the_function_and_the_module_share_a_name() -> None:
    from plimsoll_gpu.capture import capture as from_the_module

    assert plimsoll_gpu.capture is capture is from_the_module


@pytest.mark.parametrize(
    "inputs", [[IMAGE, LABEL], (IMAGE, LABEL), {"label": LABEL, "image": IMAGE}, UserDict(image=IMAGE, label=LABEL)]
)
def test_several_inputs_come_by_position_or_by_name(inputs: Any) -> None:
    graph = capture(Two(), inputs)
    shapes = {tensor["name"]: tensor["shape"] for tensor in graph["inputs"]}
    assert shapes == {"image": ["batch", 8], "label": ["batch"]}
    assert graph["outputs"] == ["add"]


def test_an_argument_that_is_no_tensor_is_passed_on() -> None:
    assert capture(Two(), {"image": IMAGE, "twice": True})["outputs"] == ["body", "mul"]


def test_nested_inputs_are_named_by_their_place() -> None:
    class Sums(nn.Module):
        def forward(self, batch: Any) -> torch.Tensor:
            return batch["images"][0] + batch["images"][1] * batch["shift"]

    graph = capture(Sums(), {"images": [IMAGE, IMAGE], "shift": torch.empty(8)})
    shapes = {tensor["name"]: tensor["shape"] for tensor in graph["inputs"]}
    assert shapes == {"batch.images.0": ["batch", 8], "batch.images.1": ["batch", 8], "batch.shift": [8]}


@pytest.mark.parametrize("inputs", [[], [IMAGE, LABEL, True, 4], {"image": IMAGE, "picture": IMAGE}, {"image": 3}])
def test_inputs_that_do_not_fit_are_refused(inputs: Any) -> None:
    with pytest.raises(CaptureError, match="inputs"):
        capture(Two(), inputs)


def test_a_data_class_is_looked_into() -> None:
    @dataclass
    class Result:
        logits: torch.Tensor
        note: str = ""

    class Wraps(nn.Module):
        def forward(self, x: torch.Tensor) -> Result:
            return Result(x.relu())

    assert capture(Wraps(), IMAGE)["outputs"] == ["relu"]


def test_a_loss_is_part_of_the_graph() -> None:
    graph = capture(nn.Linear(8, 4), IMAGE, loss=F.cross_entropy, target=LABEL)
    assert [tensor["name"] for tensor in graph["inputs"]] == ["input", "target"]
    assert [node["op"] for node in graph["nodes"]] == ["linear", "log_softmax", "nll_loss_forward"]
    assert graph["outputs"] == ["nll_loss_forward"]
    assert graph["nodes"][-1]["outputs"][0]["shape"] == []


def test_a_loss_may_need_no_target() -> None:
    graph = capture(nn.Linear(8, 4), IMAGE, loss=lambda output: output.square().mean())
    assert graph["nodes"][-1]["op"] == "reduce"


def test_a_model_of_transformers_may_return_its_loss() -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = transformers.BertConfig(vocab_size=50, **sizes)
    tokens = torch.empty(1, 12, dtype=torch.long)
    model = transformers.BertForMaskedLM(config)
    assert capture(model, {"input_ids": tokens})["nodes"][-1]["outputs"][0]["shape"] == ["batch", 12, 50]
    graph = capture(model, {"input_ids": tokens, "attention_mask": tokens, "labels": tokens})
    outputs = {tensor["name"]: tensor for node in graph["nodes"] for tensor in node["outputs"]}
    assert [outputs[name]["shape"] for name in graph["outputs"]] == [[]]


def test_checkpointed_modules_are_captured_once() -> None:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(8, 8), nn.GELU())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return checkpoint(self.body, x, use_reentrant=False)

    assert [node["name"] for node in capture(Checkpointed(), IMAGE)["nodes"]] == ["body.0", "body.1"]


@pytest.mark.parametrize(
    ("function", "ops", "asked"),
    [
        (lambda x: x.relu() if x.isnan().any() else x.tanh(), ["activation"], "taken as False"),
        (lambda x: x.tanh() if (x > 0).all() else x.relu(), ["activation"], "taken as True"),
        (lambda x: x.relu() if x.sum() > 0 else x.tanh(), ["activation"], "taken as False"),
        (lambda x: x[x > 0].tanh(), ["binary", "nonzero", "view", "gather", "activation"], "as many results"),
    ],
)
def test_what_depends_on_values_is_assumed_and_said(function: Any, ops: list[str], asked: str) -> None:
    class Asks(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(x)

    with pytest.warns(CaptureWarning, match=asked):
        nodes = capture(Asks(), IMAGE)["nodes"]
    assert [node["op"] for node in nodes] == ops
    assert nodes[-1]["attributes"] == {"function": "tanh"}


def test_layers_that_are_skipped_by_chance_are_not() -> None:
    class Drops(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if torch.rand([]) < 0.2 else x.relu()

    assert len(capture(Drops(), IMAGE)["nodes"]) == 1


def test_values_of_buffers_are_known() -> None:
    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("is_rectified", torch.tensor(True))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.relu() if self.is_rectified else x.tanh()

    assert capture(Branches(), IMAGE)["nodes"][0]["attributes"] == {"function": "relu"}
