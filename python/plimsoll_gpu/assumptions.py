"""Shows what captures take for granted."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from plimsoll_gpu.graph import CaptureWarning


@contextmanager
def on_stderr() -> Iterator[None]:
    """Writes each assumption that captures rest on to standard error, once, while it lasts."""
    shown: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *rest: Any) -> None:
        if issubclass(category, CaptureWarning) and str(message) not in shown:
            shown.add(str(message))
            print(f"warning: {message}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", CaptureWarning)
        warnings.showwarning = show  # type: ignore[assignment]
        yield
