"""What a forward pass takes and gives: tensors among nested arguments."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from plimsoll_gpu.graph import CaptureError

TARGET = "target"
"""The name of the tensor that the loss takes beside the model's output."""


@dataclass(frozen=True)
class Arguments:
    """Arguments of one forward pass, and the tensors among them by name."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    target: Any
    tensors: dict[str, torch.Tensor]


@dataclass(frozen=True)
class Example:
    """Arguments of ``forward`` by name, as a user gives them."""

    signature: inspect.Signature
    named: dict[str, Any]

    @classmethod
    def of(cls, model: nn.Module, inputs: Any, target: Any = None) -> Example:
        """The arguments that example inputs stand for.

        Raises:
            CaptureError: ``forward`` does not take them, or no tensor is among them.
        """
        signature = inspect.signature(model.forward)
        try:
            named = dict(_bind(signature, inputs).arguments)
        except TypeError as error:
            raise CaptureError(f"{type(model).__name__}.forward does not take these inputs: {error}") from error
        if target is not None:
            if TARGET in named:
                raise CaptureError(f"`{TARGET}` is an argument of {type(model).__name__}.forward and of the loss")
            named[TARGET] = target
        example = cls(signature, named)
        example._batch()
        return example

    def at(self, batch: int) -> Arguments:
        """The arguments at another batch size, tensors of the example replaced by meta tensors."""
        was = self._batch()
        tensors: dict[str, torch.Tensor] = {}
        named: dict[str, Any] = {}
        for argument, value in self.named.items():
            leaves, structure = tree_flatten(_plain(value))
            for index, leaf in enumerate(leaves):
                if isinstance(leaf, torch.Tensor):
                    leaves[index] = _resized(leaf, was, batch)
            named[argument] = tree_unflatten(leaves, structure)
            tensors.update(_named(argument, named[argument]))
        target = named.pop(TARGET, None) if TARGET not in self.signature.parameters else None
        bound = inspect.BoundArguments(self.signature, named)
        return Arguments(bound.args, bound.kwargs, target, tensors)

    def _batch(self) -> int:
        """The batch size of the example: the first extent of its first tensor."""
        for tensor in tensors_of(self.named):
            if tensor.dim() > 0:
                return tensor.shape[0]
        raise CaptureError("inputs: expected a tensor whose first dimension is the batch, found none")


def _bind(signature: inspect.Signature, inputs: Any) -> inspect.BoundArguments:
    if isinstance(inputs, Mapping):
        try:
            return signature.bind(**inputs)
        except TypeError:
            if not signature.parameters.keys().isdisjoint(inputs):
                raise
            return signature.bind(dict(inputs))  # The model takes the mapping as it is.
    return signature.bind(*inputs) if isinstance(inputs, Sequence) else signature.bind(inputs)


def _resized(tensor: torch.Tensor, was: int, batch: int) -> torch.Tensor:
    """A meta tensor like one of the example, at another batch size if it grows with the batch."""
    shape = list(tensor.shape)
    if shape and shape[0] == was:
        shape[0] = batch
    return torch.empty(shape, dtype=tensor.dtype, device="meta")


def _plain(value: Any) -> Any:
    """The value with mappings of any class as dictionaries, which PyTorch can take apart."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_plain(item) for item in value)
    return value


def _named(name: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _named(f"{name}.{key}", item)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _named(f"{name}.{index}", item)


def tensors_of(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in nested lists, mappings and data classes, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_of(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_of(item)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for entry in dataclasses.fields(value):
            yield from tensors_of(getattr(value, entry.name))
