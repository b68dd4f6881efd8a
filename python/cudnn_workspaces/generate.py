"""Writes a table of convolutions and the workspaces that cuDNN gives them."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from cudnn_workspaces.convolution import Direction, Layout, Precision, Shape
from cudnn_workspaces.devices import Device
from cudnn_workspaces.library import CudnnError, Library
from cudnn_workspaces.plans import Plan, Planner
from cudnn_workspaces.sampling import Kind, draw_shape
from cudnn_workspaces.survive import surviving_map

FIRST_PLANS = 8
"""How many plans a row lists."""
SHAPES_OF_A_PART = 2000

_SIZES = tuple(Shape.__dataclass_fields__)
SCHEMA = pa.schema(
    [(name, pa.int32()) for name in _SIZES]
    + [(name, pa.dictionary(pa.int8(), pa.string())) for name in ("direction", "precision", "layout", "gpu", "status")]
    + [
        ("cudnn_version", pa.int32()),
        ("plan_count", pa.int16()),
        ("first_plan_bytes", pa.int64()),
        ("max_plan_bytes", pa.int64()),
        ("plan_bytes", pa.list_(pa.int64())),
        ("plan_engines", pa.list_(pa.int16())),
    ]
)
"""A row is one direction of one convolution.

``status`` is ``ok``, ``unsupported`` (no plan) or ``crashed`` (the query killed its process); sizes are null unless ok.
``max_plan_bytes`` is over all plans, ``plan_bytes`` and ``plan_engines`` are of the first few, in cuDNN's order.
"""


@dataclass(frozen=True)
class Job:
    """What to ask: some shapes of a seed, each on one of the GPUs and in one of the formats, in all directions."""

    seed: int
    shapes: int
    gpus: tuple[str, ...]
    formats: tuple[tuple[Precision, Layout], ...]
    kind: Kind = Kind.ANY


@dataclass(frozen=True)
class Query:
    """One row before it is answered."""

    shape: Shape
    direction: Direction
    precision: Precision
    layout: Layout
    gpu: str


class Generator:
    """Answers queries with a loaded cuDNN."""

    def __init__(self, library: Library, devices: dict[str, Device], gpus: tuple[str, ...]) -> None:
        missing = [gpu for gpu in gpus if gpu not in devices]
        if missing:
            raise ValueError(f"unknown GPUs: {', '.join(missing)}; expected some of {', '.join(devices)}")
        self._version = library.version
        self._planners = {gpu: Planner(library, devices[gpu]) for gpu in gpus}

    def write(self, job: Job, path: Path) -> None:
        """Writes the job's table, part by part; parts that an earlier run left behind are not asked again.

        Parts lie beside the table, in ``PATH.parts``, and stay: a larger job with the same seed builds on them.
        """
        parts = path.with_name(path.name + ".parts")
        parts.mkdir(parents=True, exist_ok=True)
        wanted = [parts / f"{self._version}-{job.seed}-{first:07}.parquet" for first in _first_shapes(job)]
        for first, part in zip(_first_shapes(job), wanted, strict=True):
            if not part.exists():
                begin = time.monotonic()
                table = self._part(job, first)
                _write_atomically(table, part)
                rate = table.num_rows / (time.monotonic() - begin)
                print(f"{part.name}: {table.num_rows} rows, {rate:.0f} a second", file=sys.stderr, flush=True)
        _write_atomically(pa.concat_tables([pq.read_table(part, schema=SCHEMA) for part in wanted]), path)

    def _part(self, job: Job, first: int) -> pa.Table:
        queries = list(_queries(job, first))
        answers = surviving_map(self._answer, queries)
        rows = [self._row(query, answer) for query, answer in zip(queries, answers, strict=True)]
        return pa.Table.from_pylist(rows, schema=SCHEMA)

    def _answer(self, query: Query) -> list[Plan]:
        try:
            return self._planners[query.gpu].plans(query.shape, query.direction, query.precision, query.layout)
        except CudnnError:
            return []

    def _row(self, query: Query, plans: list[Plan] | None) -> dict[str, object]:
        first = (plans or [])[:FIRST_PLANS]
        return {
            **asdict(query.shape),
            "direction": query.direction.value,
            "precision": query.precision.value,
            "layout": query.layout.value,
            "gpu": query.gpu,
            "cudnn_version": self._version,
            "status": "ok" if plans else "crashed" if plans is None else "unsupported",
            "plan_count": len(plans or []),
            "first_plan_bytes": first[0].bytes if first else None,
            "max_plan_bytes": max(plan.bytes for plan in plans) if plans else None,
            "plan_bytes": [plan.bytes for plan in first],
            "plan_engines": [plan.engine for plan in first],
        }


def _first_shapes(job: Job) -> range:
    return range(0, job.shapes, SHAPES_OF_A_PART)


def _queries(job: Job, first: int) -> Iterator[Query]:
    """The queries of a part; they depend on the seed and the part only, not on how the work was cut."""
    generator = random.Random(f"{job.seed}/{first}")
    for _ in range(min(SHAPES_OF_A_PART, job.shapes - first)):
        shape = draw_shape(generator, job.kind)
        gpu = generator.choice(job.gpus)
        precision, layout = generator.choice(job.formats)
        for direction in Direction:
            yield Query(shape, direction, precision, layout, gpu)


def _write_atomically(table: pa.Table, path: Path) -> None:
    unfinished = path.with_name(path.name + ".unfinished")
    pq.write_table(table, unfinished, compression="zstd")
    os.replace(unfinished, path)
