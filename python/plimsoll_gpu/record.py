"""Runs a model's forward pass on the meta device and writes down its operators."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakTensorKeyDictionary

from plimsoll_gpu.autocast import autocast_on_meta
from plimsoll_gpu.choices import AT_MOST, Choices, without_masks
from plimsoll_gpu.composites import composite_module, whole_composites
from plimsoll_gpu.constants import Constants
from plimsoll_gpu.graph import CaptureError, CaptureWarning, Graph, Node, Tensor, Weight
from plimsoll_gpu.inputs import Arguments, tensors_of
from plimsoll_gpu.modules import Modules
from plimsoll_gpu.operators import Call, Operation, translate
from plimsoll_gpu.quick import result_of


def record(
    model: nn.Module,
    arguments: Arguments,
    name: str,
    loss: Callable[..., Any] | None = None,
    known: Mapping[str, torch.Tensor] | None = None,
) -> Graph:
    """The forward pass of a model in training mode, operator by operator, at the arguments' batch size.

    Args:
        model: A model on the meta device; it is put into training mode.
        arguments: What ``forward`` takes, tensors on the meta device.
        name: What to call the graph.
        loss: Makes a loss of the output, and of the target if the arguments have one.
        known: Values of buffers by name.

    Raises:
        CaptureError: The forward pass fails, needs numbers that depend on its input, or uses an unsupported
            element type.
    """
    model.train()
    recorder = _Recorder(model, arguments.tensors, name, known or {})
    try:
        with (
            torch.enable_grad(),
            _repeatable(),
            autocast_on_meta(),
            recorder.modules.followed(recorder.enter, recorder.leave),
            whole_composites(recorder.composite),
            recorder,
        ):
            result = model(*arguments.args, **arguments.kwargs)
            if loss is not None:
                result = loss(result) if arguments.target is None else loss(result, arguments.target)
    except CaptureError:
        raise
    except Exception as error:  # A model is arbitrary code: it may fail in any way.
        place = f"{name}: {recorder.modules.path} fails on the meta device at {recorder.operator}"
        raise CaptureError(f"{place}: {type(error).__name__}: {error}") from error
    recorder.graph.outputs = [recorder.names[tensor] for tensor in _outputs(result) if tensor in recorder.names]
    if not recorder.graph.outputs:
        raise CaptureError(f"{name}: the model returns no tensor, in a {type(result).__name__}")
    return recorder.graph


class _Recorder(TorchDispatchMode):
    """Sees every operator below autograd and adds it to ``graph``."""

    def __init__(
        self,
        model: nn.Module,
        inputs: Mapping[str, torch.Tensor],
        name: str,
        known: Mapping[str, torch.Tensor],
    ) -> None:
        super().__init__()
        self.graph = Graph(name)
        self.names = WeakTensorKeyDictionary()
        """The name under which each living tensor was last written."""
        self.modules = Modules(model, inputs)
        self.operator = "its start"
        """The operator that ran last, for error messages."""
        self.on_node: Callable[[str], None] | None = None
        """Told the name of each node that was added."""
        self._weights: dict[int, str] = {}
        self._unregistered: list[torch.Tensor] = []
        self._constants = Constants()
        self._choices = Choices()
        self._silent = 0
        for input_name, tensor in inputs.items():
            self.graph.inputs.append(_describe(input_name, tensor))
            self.names[tensor] = input_name
        for weight_name, parameter in model.named_parameters():
            self._add_weight(weight_name, parameter, "parameter" if parameter.requires_grad else "frozen")
        for weight_name, buffer in model.named_buffers():
            self._add_weight(weight_name, buffer, "buffer")
            if weight_name in known:
                self._constants.know(buffer, known[weight_name].clone())

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
        if func is torch.ops.aten.equal.default:
            return self._is_equal(*args)
        if func is torch.ops.aten.index.Tensor:
            args = (args[0], without_masks(self._run, args[1]))
        self.operator = str(func)
        at_most = None if _is_on_host(args) else AT_MOST.get(func._schema.name)
        result = result_of(func, args, kwargs) if at_most is None else at_most(self._known, *args, **kwargs)
        return self._follow(func, args, kwargs, result)

    def _run(self, func: Any, *args: Any) -> Any:
        """Runs an operator that the model did not ask for by itself."""
        return self.__torch_dispatch__(func, (), args)

    def _follow(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        if _is_random_on_host(func, result):
            # Decisions such as whether to skip a layer: every chance below one half does not come true.
            result.fill_(0.5)
        self._constants.follow(func, args, kwargs, result)
        self._choices.follow(func, result)
        if not self._silent:
            self._add_call(func, args, kwargs, result)
        return result

    def _known(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The value of a mask; where it is not known, all of it will be taken as set."""
        value = self._constants.value(tensor)
        if value is None:
            self._warn(f"as many results as there can be are taken of {self.operator}")
        return value

    def _item(self, tensor: torch.Tensor) -> Any:
        value = self._constants.value(tensor)
        if value is not None:
            return value.item()
        answer = self._choices.answer(tensor)
        if answer is None:
            where = f"{self.graph.name}: {self.modules.path} reads a number that depends on its input"
            raise CaptureError(f"{where}, which {self.operator} made")
        self._warn(f"reads a value that depends on its input; taken as {answer}")
        return answer

    def _is_equal(self, first: torch.Tensor, second: torch.Tensor) -> bool:
        values = [self._constants.value(tensor) for tensor in (first, second)]
        if first.shape != second.shape:
            return False
        if values[0] is not None and values[1] is not None:
            return torch.equal(values[0], values[1])
        self._warn("compares tensors that depend on its input; taken as equal")
        return True

    def _warn(self, text: str) -> None:
        warnings.warn(f"{self.graph.name}: {self.modules.path}: {text}", CaptureWarning, stacklevel=2)

    def enter(self, module: nn.Module) -> None:
        """Stops recording where a module is one node."""
        self._silent += composite_module(module) is not None

    def leave(self, module: nn.Module, args: Any, result: Any) -> None:
        """Adds a module that is one node."""
        operation = composite_module(module)
        if operation is None:
            return
        self._silent -= 1
        outputs = _tensors(result)
        if not self._silent and not any(output in self.names for output in outputs):  # It may return its input.
            self._add_node(operation, operation.op, _tensors(args), outputs)

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
        if all(output.device.type == "cpu" for output in outputs):
            return  # Work of the host.
        call = Call.of(func, args, kwargs, lambda tensor: _storage(tensor) in self._weights)
        operands = call.tensors()
        shares = bool(operands) and _storage(operands[0]) == _storage(outputs[0])
        is_view = shares and (not call.inplace or torch.Tag.inplace_view in func.tags)
        if (is_view or call.inplace) and call.is_weight(operands[0]):
            return  # A view of a weight is the weight; a write to one only updates its statistics.
        if is_view and not call.inplace and _is_same(operands[0], outputs) and operands[0] in self.names:
            self.names[outputs[0]] = self.names[operands[0]]
        elif is_view:
            self._add_node(Operation("view"), call.name, operands[:1], outputs)
        else:
            operation = translate(call)
            self._add_node(operation, call.name, call.tensors(operation.operands), outputs)

    def _add_node(
        self, operation: Operation, aten_name: str, operands: list[torch.Tensor], outputs: list[torch.Tensor]
    ) -> None:
        inputs: list[str] = []
        weights: list[str] = []
        for tensor in operands:
            if tensor in self.names:
                inputs.append(self.names[tensor])
            elif tensor.device.type != "cpu" and (tensor.dim() > 0 or _storage(tensor) in self._weights):
                weights.append(self._weight_of(tensor))
        name = self.modules.name(operation.op, aten_name.strip("_"))
        written = []
        for index, tensor in enumerate(outputs):
            self.names[tensor] = f"{name}:{index}" if index else name
            written.append(_describe(self.names[tensor], tensor))
        self.graph.nodes.append(Node(name, operation.op, operation.attributes, inputs, weights, written))
        if self.on_node is not None:
            self.on_node(name)

    def _weight_of(self, tensor: torch.Tensor) -> str:
        """The weight that a tensor is a view of; a tensor that the model did not register becomes a buffer."""
        if _storage(tensor) not in self._weights:
            self._unregistered.append(tensor)
            self._add_weight(f"unregistered_{len(self._unregistered)}", tensor, "buffer")
        return self._weights[_storage(tensor)]

    def _add_weight(self, name: str, tensor: torch.Tensor, kind: str) -> None:
        self._weights.setdefault(_storage(tensor), name)
        shown = _describe(name, tensor)
        self.graph.weights.append(Weight(name, shown.shape, shown.dtype, kind))


@contextmanager
def _repeatable() -> Iterator[None]:
    """Lets random numbers on the host come out alike in every capture, and leaves their sources as they were."""
    state = random.getstate()
    try:
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(0)
            random.seed(0)
            yield
    finally:
        random.setstate(state)


def _is_on_host(args: tuple[Any, ...]) -> bool:
    return all(tensor.device.type == "cpu" for tensor in _tensors(args))


def _is_random_on_host(func: Any, result: Any) -> bool:
    return (
        torch.Tag.nondeterministic_seeded in func.tags
        and isinstance(result, torch.Tensor)
        and result.device.type == "cpu"
        and result.is_floating_point()
    )


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _outputs(result: Any) -> list[torch.Tensor]:
    """The tensors that a loss can see; the loss alone where the model returns it."""
    loss = result.get("loss") if isinstance(result, Mapping) else None
    tensors = list(tensors_of(result if loss is None else loss))
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
    """A tensor as the format writes it; a complex number is two numbers side by side."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    shape: list[Any] = list(tensor.shape)  # Numbers; the batch becomes symbolic later.
    if tensor.is_complex():
        return Tensor(name, [*tensor.shape, 2], str(tensor.dtype.to_real()).removeprefix("torch."))
    dtype = "float8" if dtype.startswith("float8") else dtype
    dtype = dtype.removeprefix("u") if dtype in ("uint16", "uint32", "uint64") else dtype
    if dtype not in DTYPES:
        raise CaptureError(f"tensor `{name}`: the graph format has no element type for {tensor.dtype}")
    return Tensor(name, shape, dtype)


DTYPES = frozenset("float64 float32 float16 bfloat16 float8 int64 int32 int16 int8 uint8 bool".split())
"""Element types of the graph format."""
