"""Records what a training step allocates and frees, in order: forward pass, loss and backward pass.

A graph says what is computed; what PyTorch keeps of it follows by rule, as far as there are rules. A record says it as
it is, for one precision and one loss, whatever the operators are.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._pytree import tree_leaves

from plimsoll_gpu.batch import BATCHES
from plimsoll_gpu.composites import whole_composites
from plimsoll_gpu.cuda_kernels import kernels_of_cuda, run_composite
from plimsoll_gpu.graph import CaptureError, Json
from plimsoll_gpu.record import _outputs, _Recorder
from plimsoll_gpu.step_events import (
    ACCUMULATE,
    ALLOCATE,
    BACKWARD,
    CONVOLVE,
    DATA_GRADIENT,
    FILTER_GRADIENT,
    FORWARD,
    FREE,
    HOLD,
    LOSS,
    MULTIPLY,
    NODE,
    SCATTER,
    SUM,
    ZERO_GRAD,
    Event,
    Steps,
    encode,
)
from plimsoll_gpu.storages import Storages

aten = torch.ops.aten

Loss = Callable[[Any], torch.Tensor]
"""Makes the number that is differentiated of what the model returns."""

PRODUCTS = frozenset({aten.mm.default, aten.bmm.default, aten.addmm.default, aten.baddbmm.default, aten.mv.default})
"""Operators that cuBLAS runs."""


def record_step(model: nn.Module, inputs: Mapping[str, torch.Tensor], graph: Json, loss: Loss | None = None) -> Json:
    """The record of one fp32 training step of a model, as it stands in a graph's ``steps``.

    Args:
        model: A model on the meta device.
        inputs: Meta tensors by argument of ``forward``; the first dimension of each is the batch, of any extent.
        graph: The model's graph, as ``plimsoll_gpu.capture.capture`` gives it.
        loss: The loss, with targets of its own. Without one a model that returns a number is differentiated as it
            is; of other outputs the first is scored against a class a row, by cross entropy over the last dimension.

    Raises:
        CaptureError: The step fails on the meta device, differs between batch sizes, or not from the graph.
    """
    rows = None if loss is not None else _rows(graph)
    first, second = (_events_at(batch, model, inputs, rows and rows(batch), loss) for batch in BATCHES)
    return encode(Steps(first, second), graph, "fp32", "own" if rows is None else "cross_entropy")


def _rows(graph: Json) -> Callable[[int], int] | None:
    """Rows of the scored output by batch, each of which has a class; none if it is a number."""
    tensors = [tensor for node in graph["nodes"] for tensor in node["outputs"]]
    shapes = {tensor["name"]: tensor["shape"] for tensor in tensors}
    shape = shapes[graph["outputs"][0]]
    if not shape:
        return None

    def rows(batch: int) -> int:
        extents = (
            extent if isinstance(extent, int) else batch * int(extent.partition("*")[0]) if "*" in extent else batch
            for extent in shape[:-1]
        )
        return math.prod(extents)

    return rows


def _events_at(
    batch: int, model: nn.Module, inputs: Mapping[str, torch.Tensor], rows: int | None, loss: Loss | None
) -> list[Event]:
    model.train()
    parameters = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    for parameter in parameters.values():
        parameter.grad = None
    storages = _Events([*model.parameters(), *model.buffers()])
    gc.collect()
    gc.disable()
    try:
        with kernels_of_cuda(), storages, storages.following(parameters):
            try:
                _run(storages, batch, model, inputs, rows, loss)
            except CaptureError:
                raise
            except Exception as error:  # A model is arbitrary code: it may fail in any way.
                raise CaptureError(f"the step fails on the meta device: {type(error).__name__}: {error}") from error
    finally:
        gc.enable()
        events = storages.finished()
        for parameter in parameters.values():
            parameter.grad = None
    return events


def _run(
    storages: _Events,
    batch: int,
    model: nn.Module,
    inputs: Mapping[str, torch.Tensor],
    rows: int | None,
    loss: Loss | None,
) -> None:
    """One pass of a training loop; what it names it holds until the next."""
    arrived = {
        argument: torch.empty(batch, *tensor.shape[1:], dtype=tensor.dtype, device="meta")
        for argument, tensor in inputs.items()
    }
    target = None if rows is None else torch.zeros(rows, dtype=torch.int64, device="meta")
    storages.hold([*arrived.values(), target])
    storages.add(ZERO_GRAD)
    storages.ran(None)
    recorder = _Recorder(model, arrived, type(model).__name__, {})

    def composite(func: Any, body: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return recorder.composite(func, lambda *a, **k: run_composite(func, body, a, k), args, kwargs)

    followed = recorder.modules.followed(recorder.enter, recorder.leave)
    with torch.enable_grad(), followed, whole_composites(composite), recorder:
        recorder.on_node = storages.ran
        result = model(**arrived)
    storages.add(LOSS)
    storages.hold(tree_leaves(result))
    scored = _outputs(result)[0]
    with whole_composites(run_composite):
        if loss is not None:
            value = loss(result)
        elif target is None:
            value = scored
        else:
            value = F.cross_entropy(scored.flatten(0, -2), target)
        storages.hold([value])
        storages.ran(None)
        storages.add(BACKWARD)
        value.backward()
    storages.drop_leftovers()


class _Events(Storages):
    """Writes the step down."""

    def __init__(self, weights: list[torch.Tensor]) -> None:
        super().__init__(weights)
        self._events: list[Event] = []
        self._start = 0
        """Where the events of the operator begin that runs."""
        self._node: str | None = None
        self._sequence = _sequence_number()
        self._nodes: dict[int, str | None] = {}
        """Nodes by the numbers that autograd gave their operators."""
        self._is_backward = False
        self._has_multiplied = False
        self._live: set[int] = set()
        self._kept: set[int] = set()
        self.stand_ins[aten.sum.dim_IntList] = self._sum
        self.stand_ins[aten.embedding_dense_backward.default] = self._scatter

    def add(self, *event: Any) -> None:
        """Adds an event."""
        self._events.append(event)
        if event[0] == BACKWARD:
            self._is_backward, self._has_multiplied = True, False

    def hold(self, leaves: list[Any]) -> None:
        """The loop gives tensors a name, under which it held others a step before."""
        for leaf in leaves:
            number = self.number(leaf) if isinstance(leaf, torch.Tensor) else None
            if number is not None and number not in self._kept:
                self._kept.add(number)
                self.add(HOLD, number)

    def ran(self, node: str | None) -> None:
        """What has happened since the last call of this is a node's work."""
        for number in range(self._sequence, _sequence_number()):
            self._nodes[number] = node
        self._sequence = _sequence_number()
        if node != self._node and any(event[0] != FREE for event in self._events[self._start :]):
            self._events.insert(self._start, (NODE, node))
            self._node = node
        self._start = len(self._events)

    def made(self, size: int) -> None:
        """Adds an allocation."""
        self._live.add(self._count - 1)
        self.add(ALLOCATE, size)

    def ended(self, number: int, size: int) -> None:
        """Adds a release, except of what the loop holds beyond the step."""
        if number in self._live and number not in self._kept:
            self._live.remove(number)
            self.add(FREE, number)

    def starts(self, func: Any) -> None:
        """Names the node at work in the backward pass, which autograd knows."""
        running = torch._C._current_autograd_node() if self._is_backward else None
        if running is None or running.name().endswith("AccumulateGrad"):
            return
        node = self._nodes.get(running._sequence_nr())
        if node != self._node:
            self.add(NODE, node)
            self._node = node

    def wrote(self, func: Any, args: tuple[Any, ...], results: list[torch.Tensor]) -> None:
        """Adds what an operator allocated and which libraries it calls."""
        if func is aten.convolution.default:
            super().wrote(func, args, results)
            self.add(CONVOLVE, FORWARD)
        elif func is aten.convolution_backward.default:
            wanted = [index for index, is_wanted in enumerate(args[-1]) if is_wanted]
            for index, tensor in zip(wanted, results, strict=True):
                self.see(tensor)
                if index < 2:
                    self.add(CONVOLVE, (DATA_GRADIENT, FILTER_GRADIENT)[index])
        else:
            super().wrote(func, args, results)
            if func in PRODUCTS and not self._has_multiplied:
                self._has_multiplied = True
                self.add(MULTIPLY)

    def _sum(
        self, empty: Any, input: torch.Tensor, dims: list[int], keepdim: bool = False, dtype: torch.dtype | None = None
    ) -> torch.Tensor:
        """A sum over rows, whose buffer depends on the GPU."""
        whole = torch.sum(input, dims, keepdim, dtype=dtype)
        result: torch.Tensor = empty(whole.shape, whole)
        reduced = {dim % max(input.dim(), 1) for dim in dims}
        if result.numel() and reduced and input.dim() - 1 not in reduced:
            self.add(SUM, input.numel() // result.numel(), result.numel())
        return result

    def _scatter(
        self, empty: Any, gradient: torch.Tensor, indices: torch.Tensor, rows: int, padding: int, scale: bool
    ) -> torch.Tensor:
        """The gradient of a table, for which many indices are sorted and few are not."""
        columns = gradient.shape[-1]
        if not gradient.is_contiguous():
            gradient = empty(gradient.shape, gradient)
        self.add(SCATTER, indices.numel(), rows, columns)
        result: torch.Tensor = empty((rows, columns), gradient)
        return result

    @contextmanager
    def following(self, parameters: Mapping[str, nn.Parameter]) -> Iterator[None]:
        """Adds gradients as they are complete."""
        handles = []
        for name, parameter in parameters.items():

            def complete(parameter: torch.Tensor, name: str = name) -> None:
                gradient = parameter.grad
                assert gradient is not None, "the hook runs when there is one"
                parts = [gradient._values()] if gradient.is_sparse else [gradient]
                number = self.number(parts[0])
                if number is None or number in self._kept:
                    # Part of another weight's gradient.
                    number = self._count
                    self._count += 1
                    self.add(ALLOCATE, 0)
                self._kept.add(number)
                self.add(ACCUMULATE, number, name)

            handles.append(parameter.register_post_accumulate_grad_hook(complete))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def drop_leftovers(self) -> None:
        """Ends what only cycles of references, or the model, keep alive."""
        gc.collect()
        for number in sorted(self._live - self._kept):
            self.ended(number, 0)

    def finished(self) -> list[Event]:
        """The events; what happens from now on is not part of the step."""
        self._live.clear()
        return self._events


def _sequence_number() -> int:
    """The number that autograd gives the next operator."""
    number: int = torch._C._autograd._get_sequence_nr()
    return number
