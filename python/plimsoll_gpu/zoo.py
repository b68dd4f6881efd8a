"""Captures whole model libraries: ``python -m plimsoll_gpu.zoo FOLDER``, one graph file a model."""

from __future__ import annotations

import argparse
import gc
import sys
import time
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from statistics import median
from typing import Any

from plimsoll_gpu import assumptions
from plimsoll_gpu.capture import capture, to_text
from plimsoll_gpu.graph import CaptureError, Json
from plimsoll_gpu.models import CATALOGUES, Request, build


@dataclass
class Tally:
    """What came of a run over many models."""

    captured: int = 0
    present: int = 0
    seconds: list[float] = field(default_factory=list)
    """CPU time of each capture, without that of building the model."""
    failed: dict[str, str] = field(default_factory=dict)
    """Reasons by model."""

    def __str__(self) -> str:
        timing = f", median {median(self.seconds):.2f} s of CPU a capture" if self.seconds else ""
        return f"{self.captured} captured{timing}; {self.present} there before; {len(self.failed)} failed"


def capture_all(requests: Iterable[Request], folder: Path, again: bool = False) -> Tally:
    """Writes ``LIBRARY/NAME.json`` for each request; a failure is reported and the rest goes on.

    Args:
        requests: What to capture.
        folder: Where the files go; those that exist are kept.
        again: Whether to capture and overwrite what exists.
    """
    tally = Tally()
    for request in requests:
        path = folder / request.library / f"{request.title}.json"
        if path.exists() and not again:
            tally.present += 1
            continue
        key = f"{request.library}:{request.name}"
        try:
            tally.seconds.append(_write(request, path))
            tally.captured += 1
            print(f"{key}: {tally.seconds[-1]:.2f} s", file=sys.stderr, flush=True)
        except Exception as error:  # One odd model of a thousand must not stop the rest.
            tally.failed[key] = str(error)
            print(f"{key}: failed: {error}", file=sys.stderr, flush=True)
            if not isinstance(error, CaptureError):
                traceback.print_exc()
        gc.collect()
    return tally


def _write(request: Request, path: Path) -> float:
    """Captures one model to a file that is there whole or not at all; returns the capture's CPU seconds."""
    model, inputs = build(request)
    start = time.process_time()
    graph = capture(model, inputs, request.name)
    seconds = time.process_time() - start
    counted, expected = parameters(graph), sum(parameter.numel() for parameter in model.parameters())
    if counted != expected:
        raise CaptureError(f"the graph has {counted} parameters, the model {expected}")
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(to_text(graph), encoding="utf-8")
    partial.replace(path)
    return seconds


def parameters(graph: Json) -> int:
    """Elements of a graph's parameters, frozen ones included."""
    return sum(prod(weight["shape"]) for weight in graph["weights"] if weight.get("kind") != "buffer")


def catalogue(only: str | None, names: Sequence[str]) -> list[Request]:
    """Requests for the models of one library or of all, or for some of them by name.

    Raises:
        CaptureError: No library in question knows a name.
    """
    libraries = [only] if only else list(CATALOGUES)
    known = {(library, request.name): request for library in libraries for request in CATALOGUES[library]()}
    if not names:
        return list(known.values())
    chosen = []
    for name in names:
        found = [known[library, name] for library in libraries if (library, name) in known]
        if not found:
            raise CaptureError(f"unknown model `{name}` in {', '.join(libraries)}")
        chosen += found
    return chosen


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m plimsoll_gpu.zoo", description=__doc__)
    parser.add_argument("folder", type=Path, help="where to write; files go to LIBRARY/NAME.json")
    parser.add_argument("names", nargs="*", metavar="name", help="which models (default: all)")
    parser.add_argument("--only", choices=sorted(CATALOGUES), help="one library")
    parser.add_argument("--again", action="store_true", help="capture also what is there already")
    options: Any = parser.parse_intermixed_args(arguments)
    try:
        requests = catalogue(options.only, options.names)
    except (CaptureError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    with assumptions.on_stderr():
        tally = capture_all(requests, options.folder, options.again)
    print(tally, file=sys.stderr)
    for key, reason in tally.failed.items():
        print(f"{key}: {reason}", file=sys.stderr)
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
