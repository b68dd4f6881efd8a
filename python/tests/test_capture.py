"""What a capture says of small models, operator by operator."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from plimsoll_gpu.capture import capture
from plimsoll_gpu.graph import CaptureError, Graph, Node, Tensor


class Function(nn.Module):
    """A module around a function, with weights if the function needs some."""

    def __init__(self, function: Any, **weights: torch.Tensor) -> None:
        super().__init__()
        self.function = function
        for name, weight in weights.items():
            self.register_parameter(name, nn.Parameter(weight))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self, x) if self._parameters else self.function(x)


LINEAR = {"weight": torch.empty(6, 5), "bias": torch.empty(6)}


def nodes_of(model: nn.Module, *shape: int, dtype: torch.dtype = torch.float32) -> list[dict[str, Any]]:
    return capture(model, torch.empty(1, *shape, dtype=dtype))["nodes"]


def only_node(model: nn.Module, *shape: int) -> dict[str, Any]:
    (node,) = nodes_of(model, *shape)
    return node


def test_a_node_has_its_modules_path_and_its_weights() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1, groups=1), nn.BatchNorm2d(8))
    graph = capture(model, torch.empty(1, 3, 16, 16), "small")
    assert graph["name"] == "small"
    assert graph["family"] == "cnn"
    assert graph["inputs"] == [{"name": "input", "shape": ["batch", 3, 16, 16]}]
    assert graph["nodes"] == [
        {
            "name": "0",
            "op": "conv",
            "attributes": {"kernel": [3, 3], "stride": [2, 2], "padding": [1, 1]},
            "inputs": ["input"],
            "weights": ["0.weight", "0.bias"],
            "outputs": [{"name": "0", "shape": ["batch", 8, 8, 8]}],
        },
        {
            "name": "1",
            "op": "batch_norm",
            "inputs": ["0"],
            "weights": ["1.weight", "1.bias", "1.running_mean", "1.running_var"],
            "outputs": [{"name": "1", "shape": ["batch", 8, 8, 8]}],
        },
    ]
    assert graph["outputs"] == ["1"]
    assert {"name": "1.num_batches_tracked", "shape": [], "dtype": "int64", "kind": "buffer"} in graph["weights"]


def test_the_model_keeps_its_weights_and_mode() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    capture(model, torch.empty(2, 4))
    assert not model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize(
    ("module", "function", "inplace"),
    [
        (nn.ReLU(inplace=True), "relu", True),
        (nn.ReLU(), "relu", False),
        (nn.ReLU6(), "relu6", False),
        (nn.Hardtanh(), "hard_tanh", False),
        (nn.GELU(), "gelu", False),
        (nn.SiLU(inplace=True), "silu", True),
        (nn.Mish(), "mish", False),
        (nn.ELU(), "elu", False),
        (nn.SELU(), "selu", False),
        (nn.LeakyReLU(), "leaky_relu", False),
        (nn.PReLU(), "prelu", False),
        (nn.Hardswish(), "hard_swish", False),
        (nn.Hardsigmoid(), "hard_sigmoid", False),
        (nn.Softplus(), "softplus", False),
        (nn.Tanh(), "tanh", False),
        (nn.Sigmoid(), "sigmoid", False),
        (nn.GLU(), "glu", False),
    ],
)
def test_an_activation_is_one_node(module: nn.Module, function: str, inplace: bool) -> None:
    node = nodes_of(nn.Sequential(nn.Linear(8, 8), module), 8)[-1]
    assert (node["name"], node["op"]) == ("1", "activation")
    assert node["attributes"] == {"function": function} | ({"inplace": True} if inplace else {})


@pytest.mark.parametrize(
    ("module", "shape", "op", "attributes"),
    [
        (nn.LayerNorm(8), (8,), "layer_norm", {}),
        (nn.RMSNorm(8), (8,), "rms_norm", {}),
        (nn.GroupNorm(2, 4), (4, 8, 8), "group_norm", {"groups": 2}),
        (nn.InstanceNorm2d(4), (4, 8, 8), "instance_norm", {}),
        (nn.Dropout(0.25), (8,), "dropout", {"p": 0.25}),
        (nn.Softmax(-1), (8,), "softmax", {}),
        (nn.LogSoftmax(-1), (8,), "log_softmax", {}),
        (
            nn.MaxPool2d(3, 2, 1),
            (4, 8, 8),
            "pool",
            {"kind": "max", "kernel": [3, 3], "stride": [2, 2], "padding": [1, 1]},
        ),
        (nn.AvgPool2d(2), (4, 8, 8), "pool", {"kind": "average", "kernel": [2, 2]}),
        (nn.AdaptiveAvgPool2d(1), (4, 8, 8), "pool", {"kind": "adaptive_average"}),
        (nn.AdaptiveMaxPool2d(2), (4, 8, 8), "pool", {"kind": "adaptive_max"}),
        (nn.Upsample(scale_factor=2), (4, 8, 8), "upsample", {}),
        (nn.ZeroPad2d(1), (4, 8, 8), "pad", {}),
        (nn.ConvTranspose1d(4, 2, 2, 2), (4, 8), "conv", {"kernel": [2], "stride": [2], "transposed": True}),
        (nn.Conv2d(4, 4, 3, groups=4), (4, 8, 8), "conv", {"kernel": [3, 3], "groups": 4}),
        (Function(lambda x: x.mean(-1)), (8,), "reduce", {}),
        (Function(lambda x: x.clone()), (8,), "copy", {}),
        (Function(lambda x: x.view(-1, 2, 4)), (8,), "view", {}),
        (Function(lambda x: torch.cat([x, x], 1)), (8,), "concat", {}),
        (Function(lambda x: x - 1), (8,), "binary", {"function": "add"}),
        (Function(lambda x: x * x), (8,), "binary", {"function": "multiply"}),
        (Function(lambda x: x / x), (8,), "binary", {"function": "divide"}),
        (Function(lambda x: x**3), (8,), "binary", {"function": "other"}),
        (Function(lambda x: x.bmm(x)), (8, 8), "mat_mul", {}),
    ],
)
def test_an_operator_has_its_name_and_attributes(
    module: nn.Module, shape: tuple[int, ...], op: str, attributes: dict[str, Any]
) -> None:
    node = only_node(module, *shape)
    assert node["op"] == op
    assert node.get("attributes", {}) == attributes
    assert len(node["outputs"]) == 1


def test_dropout_that_drops_nothing_is_no_node() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.0), nn.Dropout(0.0, inplace=True), nn.Identity())
    assert [node["name"] for node in nodes_of(model, 4)] == ["0"]


def test_dropout_in_place_is_one_node() -> None:
    node = nodes_of(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5, inplace=True)), 4)[-1]
    assert (node["op"], node["attributes"]) == ("dropout", {"p": 0.5, "inplace": True})


def test_addition_in_place_is_marked() -> None:
    def add(x: torch.Tensor) -> torch.Tensor:
        y = x.relu()
        y += x
        return y

    relu, addition = nodes_of(Function(add), 4)
    assert addition["attributes"] == {"function": "add", "inplace": True}
    assert addition["inputs"] == [relu["name"], "x"]


def test_a_change_of_shape_in_place_is_a_view() -> None:
    relu, view = nodes_of(Function(lambda x: x.relu().unsqueeze_(1)), 4)
    assert (view["op"], view["inputs"], view["outputs"][0]["shape"]) == ("view", [relu["name"]], ["batch", 1, 4])


def test_a_linear_layer_over_tokens_is_one_node() -> None:
    node = only_node(nn.Linear(8, 6), 5, 8)
    assert (node["op"], node["weights"]) == ("linear", ["weight", "bias"])
    assert node["outputs"][0]["shape"] == ["batch", 5, 6]


def test_a_copy_before_a_linear_layer_is_kept() -> None:
    model = Function(lambda self, x: F.linear(x.transpose(1, 2), self.weight), weight=torch.empty(6, 5))
    assert [node["op"] for node in nodes_of(model, 5, 8)] == ["view", "copy", "linear"]


def test_the_bias_of_a_linear_layer_on_strided_input_is_added_in_place() -> None:
    """As on CUDA: no second tensor of the output's size."""
    model = Function(lambda self, x: F.linear(x.transpose(1, 2), self.weight, self.bias), **LINEAR)
    *_, product, addition = nodes_of(model, 5, 8)
    assert (product["op"], product["weights"]) == ("linear", ["weight"])
    assert addition["attributes"] == {"function": "add", "inplace": True}
    assert (addition["inputs"], addition["weights"]) == ([product["name"]], ["bias"])


def test_a_weight_used_outside_a_module_is_found() -> None:
    node = only_node(Function(lambda self, x: x * self.scale, scale=torch.empty(8)), 8)
    assert (node["op"], node["inputs"], node["weights"]) == ("binary", ["x"], ["scale"])


def test_fused_attention_is_one_node() -> None:
    def attend(x: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(x, x, x, dropout_p=0.1, is_causal=True)

    node = only_node(Function(attend), 4, 16, 32)
    assert (node["op"], node["attributes"]) == ("attention", {"heads": 4, "causal": True, "dropout": 0.1})
    assert node["inputs"] == ["x", "x", "x"]


def test_attention_may_share_keys_among_heads() -> None:
    def attend(x: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(x, x[:, :2], x[:, :2], is_causal=True, enable_gqa=True)

    node = nodes_of(Function(attend), 4, 16, 32)[-1]
    assert (node["op"], node["attributes"]) == ("attention", {"heads": 4, "kv_heads": 2, "causal": True})


def test_attention_reads_its_mask() -> None:
    def attend(x: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(16, 16, dtype=torch.bool, device=x.device).tril()
        return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)

    node = nodes_of(Function(attend), 4, 16, 32)[-1]
    assert (node["op"], node["attributes"]) == ("attention", {"heads": 4})
    assert node["inputs"] == ["x", "x", "x", "tril"]


def test_attention_without_a_fused_kernel_is_taken_apart() -> None:
    ops = [node["op"] for node in nodes_of(Function(lambda x: F.scaled_dot_product_attention(x, x, x)), 4, 16, 3)]
    assert "attention" not in ops
    assert ops.count("mat_mul") == 2
    assert ops.count("softmax") == 1


def test_a_recurrent_layer_is_one_node() -> None:
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(8, 6, num_layers=2, batch_first=True, bidirectional=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.lstm(x)[0]

    graph = capture(Last(), torch.empty(1, 5, 8))
    node = next(node for node in graph["nodes"] if node["op"] == "recurrent")
    assert graph["family"] == "recurrent"
    assert node["attributes"] == {"cell": "lstm", "hidden": 6, "layers": 2, "bidirectional": True}
    assert node["outputs"] == [{"name": "lstm", "shape": ["batch", 5, 12]}]


def test_an_unknown_operator_keeps_its_name() -> None:
    node = only_node(Function(lambda x: x.cumsum(-1)), 8)
    assert (node["name"], node["op"]) == ("cumsum", "cumsum")
    assert "attributes" not in node


def test_a_module_that_runs_twice_has_two_nodes() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.act = nn.ReLU()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.act(self.act(x) + 1)

    assert [node["name"] for node in nodes_of(Twice(), 4)] == ["act", "add", "act_2"]


def test_a_tied_embedding_is_one_weight() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(100, 8)
            self.head = nn.Linear(8, 100, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.head(self.embedding(tokens))

    graph = capture(Tied(), torch.empty(1, 5, dtype=torch.long))
    assert graph["weights"] == [{"name": "embedding.weight", "shape": [100, 8]}]
    assert [node["weights"] for node in graph["nodes"]] == [["embedding.weight"]] * 2
    assert graph["inputs"][0]["dtype"] == "int64"


def test_a_frozen_parameter_is_marked() -> None:
    model = nn.Linear(4, 4)
    model.bias.requires_grad_(False)
    assert capture(model, torch.empty(1, 4))["weights"] == [
        {"name": "weight", "shape": [4, 4]},
        {"name": "bias", "shape": [4], "kind": "frozen"},
    ]


def test_a_complex_number_is_two_numbers() -> None:
    transform, _ = nodes_of(Function(lambda x: torch.fft.rfft(x).abs()), 8)
    assert transform["outputs"][0] == {"name": transform["name"], "shape": ["batch", 5, 2]}


def test_a_group_for_each_sample_counts_once() -> None:
    """Convolutions whose kernels depend on the sample run as one, with the batch among the channels."""

    def mixed(self: Any, x: torch.Tensor) -> torch.Tensor:
        batch, channels, height, width = x.shape
        kernels = self.weight.expand(batch, -1, -1, -1, -1).reshape(-1, channels // 2, 1, 1)
        return F.conv2d(x.reshape(1, -1, height, width), kernels, groups=2 * batch)

    convolution = nodes_of(Function(mixed, weight=torch.empty(1, 6, 2, 1, 1)), 4, 5, 5)[-1]
    assert convolution["attributes"] == {"kernel": [1, 1], "groups": 2}
    assert convolution["outputs"][0]["shape"] == [1, "6*batch", 5, 5]


def test_extents_that_grow_with_the_batch_are_multiples_of_it() -> None:
    (node,) = nodes_of(Function(lambda x: x.view(-1, 4)), 3, 4)
    assert node["outputs"][0]["shape"] == ["3*batch", 4]


@pytest.mark.parametrize(
    ("function", "word"),
    [
        (lambda x: torch.cat([x, x[:1]]), "neither fixed nor a multiple of the batch"),
        (lambda x: x @ x.t() if len(x) > 200 else x.relu(), "depend"),
        (lambda x: x.relu().tanh() if len(x) > 200 else x.relu(), "one batch size only"),
        (lambda x: F.dropout(x, 1 / len(x)), "attributes depend on the batch"),
        (lambda x: x * int(x.sum()), "reads a number that depends on its input, which aten.sum.default made"),
        (lambda x: x[:, 99], "Function fails on the meta device at"),
        (lambda x: None, "returns no tensor"),
    ],
)
def test_what_cannot_be_captured_is_said(function: Any, word: str) -> None:
    with pytest.raises(CaptureError, match=word):
        capture(Function(function), torch.empty(1, 8))


def test_an_error_names_the_module() -> None:
    model = nn.Sequential(nn.ReLU(), nn.Sequential(nn.Linear(9, 9)))
    with pytest.raises(CaptureError, match=r"1\.0 fails on the meta device at aten\.addmm"):
        capture(model, torch.empty(1, 8))


def test_a_branch_on_constants_is_taken() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(x.shape[1], device=x.device).expand(x.shape[0], -1)
        return x.relu() if (positions.diff(dim=-1) == 1).all() else x.tanh()

    assert only_node(Function(forward), 8)["attributes"] == {"function": "relu"}


@pytest.mark.parametrize(
    "graph",
    [
        Graph(
            "twice", [Tensor("x", [1], "float32")], [], [Node("x", "view", {}, ["x"], [], [Tensor("x", [1], "bool")])]
        ),
        Graph("dangling", [], [], [Node("a", "view", {}, ["x"], [], [Tensor("a", [1], "float32")])]),
        Graph("weightless", [], [], [Node("a", "copy", {}, [], ["w"], [Tensor("a", [1], "float32")])]),
        Graph("no such output", outputs=["y"]),
    ],
)
def test_a_broken_graph_is_refused(graph: Graph) -> None:
    with pytest.raises(CaptureError):
        graph.check()
