"""Runs calls that may kill their process: in a child process, started anew after each death."""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import TypeVar

Task = TypeVar("Task")
Answer = TypeVar("Answer")

_SECONDS = 120.0
"""Longer than any answer takes; a child that says nothing for so long counts as dead."""


def surviving_map(work: Callable[[Task], Answer], tasks: Sequence[Task]) -> Iterator[Answer | None]:
    """Answers in the order of the tasks; none for a task that killed the child or kept it too long.

    The child is a fork: it starts in milliseconds with whatever libraries this process has loaded.
    """
    context = multiprocessing.get_context("fork")
    done = 0
    while done < len(tasks):
        reader, writer = context.Pipe(duplex=False)
        child = context.Process(target=_answer_all, args=(work, tasks[done:], writer), daemon=True)
        child.start()
        writer.close()
        with contextlib.suppress(EOFError):
            while done < len(tasks) and reader.poll(_SECONDS):
                yield reader.recv()
                done += 1
        if done < len(tasks):
            yield None
            done += 1
        child.kill()
        child.join()
        reader.close()


def _answer_all(work: Callable[[Task], Answer], tasks: Sequence[Task], writer: Connection) -> None:
    for task in tasks:
        writer.send(work(task))
