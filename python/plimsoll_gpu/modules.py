"""Which module runs, and what its nodes are called."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import nn


@dataclass
class _Frame:
    """A module that is running."""

    path: str
    is_leaf: bool
    is_named: bool = False
    """Whether a node already carries the module's bare path."""


class Modules:
    """The modules of a model, followed while it runs."""

    def __init__(self, model: nn.Module, taken: Iterable[str]) -> None:
        """Follows ``model``; nodes are never called like one of ``taken``."""
        self._model = model
        self._taken = set(taken)
        self._uses: defaultdict[str, int] = defaultdict(lambda: 1)
        """How often each name was wanted."""
        self._frames = [_Frame("", is_leaf=False)]

    @property
    def path(self) -> str:
        """The path of the module that runs, or that failed."""
        return self._frames[-1].path or type(self._model).__name__

    @contextmanager
    def followed(
        self, entered: Callable[[nn.Module], None], left: Callable[[nn.Module, Any, Any], None]
    ) -> Iterator[None]:
        """Keeps track of the module that runs while it lasts.

        Args:
            entered: Called with each module before it runs.
            left: Called with each module, its arguments and its result after it ran.
        """
        handles = []
        for path, module in self._model.named_modules():

            def enter(module: nn.Module, args: Any, path: str = path) -> None:
                self._frames.append(_Frame(path, is_leaf=not any(module.children())))
                entered(module)

            def leave(module: nn.Module, args: Any, result: Any) -> None:
                left(module, args, result)
                self._frames.pop()

            handles += [module.register_forward_pre_hook(enter), module.register_forward_hook(leave)]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def name(self, op: str, aten_name: str) -> str:
        """A new node's name: the module's path; with the operator where it is not what the module is there for."""
        frame = self._frames[-1]
        if frame.path and frame.is_leaf and not frame.is_named and op not in ("view", "copy"):
            frame.is_named = True
            wanted = frame.path
        else:
            wanted = f"{frame.path}.{aten_name}".lstrip(".")
        name = wanted
        while name in self._taken:
            self._uses[wanted] += 1
            name = f"{wanted}_{self._uses[wanted]}"
        self._taken.add(name)
        return name
