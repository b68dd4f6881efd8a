"""Runs a model's forward pass on the meta device and writes down its operators."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakTensorKeyDictionary

from plimsoll_gpu.composites import COMPOSITE_MODULES, whole_composites
from plimsoll_gpu.constants import Constants
from plimsoll_gpu.graph import CaptureError, Graph, Node, Tensor, Weight
from plimsoll_gpu.operators import Call, Operation, translate


def record(model: nn.Module, inputs: Mapping[str, torch.Tensor], name: str) -> Graph:
    """The forward pass of a model in training mode, operator by operator, at the inputs' batch size.

    Args:
        model: A model on the meta device; it is put into training mode.
        inputs: Meta tensors by the name of the argument of ``forward`` that takes them.
        name: What to call the graph.

    Raises:
        CaptureError: The forward pass fails, needs values of its input, or uses an unsupported element type.
    """
    model.train()
    recorder = _Recorder(model, inputs, name)
    try:
        with torch.enable_grad(), recorder.following_modules(), whole_composites(recorder.composite), recorder:
            result = model(**inputs)
    except CaptureError:
        raise
    except Exception as error:  # A model is arbitrary code: it may fail in any way.
        kind = type(error).__name__
        raise CaptureError(f"{name}: the forward pass fails on the meta device: {kind}: {error}") from error
    recorder.graph.outputs = [recorder.names[tensor] for tensor in _outputs(result) if tensor in recorder.names]
    return recorder.graph


@dataclass
class _Frame:
    """A module that is running."""

    path: str
    is_leaf: bool
    is_named: bool = False
    """Whether a node already carries the module's bare path."""


class _Recorder(TorchDispatchMode):
    """Sees every operator below autograd and adds it to ``graph``."""

    def __init__(self, model: nn.Module, inputs: Mapping[str, torch.Tensor], name: str) -> None:
        super().__init__()
        self.graph = Graph(name)
        self.names = WeakTensorKeyDictionary()
        """The name under which each living tensor was last written."""
        self._model = model
        self._weights: dict[int, str] = {}
        self._unregistered: list[torch.Tensor] = []
        self._constants = Constants()
        self._taken = set(inputs)
        self._frames = [_Frame("", is_leaf=False)]
        self._silent = 0
        for input_name, tensor in inputs.items():
            self.graph.inputs.append(_describe(input_name, tensor))
            self.names[tensor] = input_name
        for weight_name, parameter in model.named_parameters():
            self._add_weight(weight_name, parameter, "parameter" if parameter.requires_grad else "frozen")
        for weight_name, buffer in model.named_buffers():
            self._add_weight(weight_name, buffer, "buffer")

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.ops.aten._local_scalar_dense.default:
            return self._item(args[0])
        result = func(*args, **kwargs)
        self._constants.follow(func, args, kwargs, result)
        if not self._silent:
            self._add_call(func, args, kwargs, result)
        return result

    def _item(self, tensor: torch.Tensor) -> Any:
        value = self._constants.value(tensor)
        if value is None:
            where = self._frames[-1].path or "the model"
            raise CaptureError(f"{self.graph.name}: {where} reads a value that depends on its input")
        return value.item()

    @contextmanager
    def following_modules(self) -> Iterator[None]:
        """Keeps track of which module runs, for the names of nodes."""
        handles = []
        for path, module in self._model.named_modules():
            composite = COMPOSITE_MODULES.get(type(module).__name__)

            def enter(module: nn.Module, args: Any, path: str = path, silent: bool = composite is not None) -> None:
                self._frames.append(_Frame(path, is_leaf=not any(module.children())))
                self._silent += silent

            def leave(module: nn.Module, args: Any, result: Any, composite: Any = composite) -> None:
                if composite is not None:
                    self._silent -= 1
                    if not self._silent:
                        self._add_module(composite(module), args, result)
                self._frames.pop()

            handles += [module.register_forward_pre_hook(enter), module.register_forward_hook(leave)]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def composite(self, func: Any, body: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs a composite operator unseen and adds it as one node."""
        self._silent += 1
        try:
            result = body(*args, **kwargs)
        finally:
            self._silent -= 1
        if not self._silent:
            self._add_call(func, args, kwargs, result)
        return result

    def _add_call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        outputs = _tensors(result)
        if not outputs:
            return
        call = Call.of(func, args, kwargs, lambda tensor: _storage(tensor) in self._weights)
        operands = call.tensors()
        is_view = bool(operands) and not call.inplace and _storage(operands[0]) == _storage(outputs[0])
        if (is_view or call.inplace) and call.is_weight(operands[0]):
            return  # A view of a weight is the weight; a write to one only updates its statistics.
        if is_view and _is_same(operands[0], outputs) and operands[0] in self.names:
            self.names[outputs[0]] = self.names[operands[0]]
        elif is_view:
            self._add_node(Operation("view"), call.name, operands[:1], outputs)
        else:
            operation = translate(call)
            self._add_node(operation, call.name, call.tensors(operation.operands), outputs)

    def _add_module(self, operation: Operation, args: tuple[Any, ...], result: Any) -> None:
        outputs = _tensors(result)
        if any(output in self.names for output in outputs):
            return  # The module did nothing: it returned its input.
        self._add_node(operation, operation.op, _tensors(args), outputs)

    def _add_node(
        self, operation: Operation, aten_name: str, operands: list[torch.Tensor], outputs: list[torch.Tensor]
    ) -> None:
        inputs: list[str] = []
        weights: list[str] = []
        for tensor in operands:
            if tensor in self.names:
                inputs.append(self.names[tensor])
            elif tensor.dim() > 0 or _storage(tensor) in self._weights:
                weights.append(self._weight_of(tensor))
        name = self._node_name(operation.op, aten_name.strip("_"))
        written = []
        for index, tensor in enumerate(outputs):
            self.names[tensor] = f"{name}:{index}" if index else name
            written.append(_describe(self.names[tensor], tensor))
        self.graph.nodes.append(Node(name, operation.op, operation.attributes, inputs, weights, written))

    def _node_name(self, op: str, aten_name: str) -> str:
        """The module's path; with the operator's name where it is not what the module is there for."""
        frame = self._frames[-1]
        if frame.path and frame.is_leaf and not frame.is_named and op not in ("view", "copy"):
            frame.is_named = True
            wanted = frame.path
        else:
            wanted = f"{frame.path}.{aten_name}".lstrip(".")
        candidates = itertools.chain([wanted], (f"{wanted}_{number}" for number in itertools.count(2)))
        name = next(candidate for candidate in candidates if candidate not in self._taken)
        self._taken.add(name)
        return name

    def _weight_of(self, tensor: torch.Tensor) -> str:
        """The weight that a tensor is a view of; a tensor that the model did not register becomes a buffer."""
        if _storage(tensor) not in self._weights:
            self._unregistered.append(tensor)
            self._add_weight(f"unregistered_{len(self._unregistered)}", tensor, "buffer")
        return self._weights[_storage(tensor)]

    def _add_weight(self, name: str, tensor: torch.Tensor, kind: str) -> None:
        self._weights.setdefault(_storage(tensor), name)
        self.graph.weights.append(Weight(name, list(tensor.shape), _dtype(tensor), kind))


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _outputs(result: Any) -> list[torch.Tensor]:
    """The tensors that a loss can see."""
    tensors = _tensors(result)
    return [tensor for tensor in tensors if tensor.requires_grad] or tensors


def _storage(tensor: torch.Tensor) -> int:
    key: int = tensor.untyped_storage()._cdata
    return key


def _is_same(operand: torch.Tensor, outputs: list[torch.Tensor]) -> bool:
    """Whether a view shows its operand as it is."""
    output = outputs[0]
    is_shape_kept = output.shape == operand.shape and output.stride() == operand.stride()
    return len(outputs) == 1 and is_shape_kept and output.dtype == operand.dtype


def _describe(name: str, tensor: torch.Tensor) -> Tensor:
    return Tensor(name, list(tensor.shape), _dtype(tensor))


def _dtype(tensor: torch.Tensor) -> str:
    name = str(tensor.dtype).removeprefix("torch.")
    name = "float8" if name.startswith("float8") else name
    if name not in DTYPES:
        raise CaptureError(f"the graph format has no element type for {tensor.dtype}")
    return name


DTYPES = frozenset("float64 float32 float16 bfloat16 float8 int64 int32 int16 int8 uint8 bool".split())
"""Element types of the graph format."""
