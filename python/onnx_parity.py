"""Check an exported network in ONNX Runtime against what Plimsoll itself computes.

Reads `model.onnx` and `parity.json` of a folder, runs every case, and prints the largest relative difference
of each output. The exit code is 1 if one is above the tolerance that the cases name (1e-4). `--record` writes
the outcome into the folder's `manifest.json`.

Needs `onnxruntime` and `numpy` (and `onnx` for `--check-model`):

    python onnx_parity.py runs/mlp/export
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

# Outputs that are compared without a floor: all are far from zero.
UNBOUNDED = {"peak_memory_mib", "peak_memory_quantiles_mib", "scale"}
VERSION = 2


def array(tensor: dict[str, Any]) -> np.ndarray:
    """Turn a tensor of a parity file into an array."""
    return np.array(tensor["data"], dtype=tensor["dtype"]).reshape(tensor["shape"])


def difference(expected: np.ndarray, found: np.ndarray, floor: float) -> float:
    """Return the largest difference relative to the larger value; what is not a number counts as infinite."""
    if expected.shape != found.shape:
        return float("inf")
    one, other = expected.astype(np.float64), found.astype(np.float64)
    if not np.isfinite(other).all():
        return float("inf")
    size = np.maximum(np.maximum(np.abs(one), np.abs(other)), floor)
    gap = np.abs(one - other)
    return float(np.max(np.divide(gap, size, out=np.zeros_like(gap), where=gap > 0.0), initial=0.0))


def compare(folder: Path) -> tuple[dict[str, float], int, float]:
    """Run all cases of a folder; return the largest difference of each output, the rows, and the tolerance."""
    parity = json.loads((folder / "parity.json").read_text())
    if parity["plimsoll_parity"] != VERSION:
        raise SystemExit(f"error: {folder / 'parity.json'} is of version {parity['plimsoll_parity']}, not {VERSION}")
    runtime = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    names = [output.name for output in runtime.get_outputs()]
    largest = dict.fromkeys(names, 0.0)
    rows = 0
    for case in parity["cases"]:
        found = dict(zip(names, runtime.run(None, {t["name"]: array(t) for t in case["inputs"]}), strict=True))
        expected = {tensor["name"]: array(tensor) for tensor in case["outputs"]}
        if expected.keys() != found.keys():
            raise SystemExit(f"error: the model gives {sorted(found)}, the cases hold {sorted(expected)}")
        rows += case["inputs"][0]["shape"][0]
        for name in names:
            floor = 0.0 if name in UNBOUNDED else parity["ratio_floor"]
            largest[name] = max(largest[name], difference(expected[name], found[name], floor))
    return largest, rows, parity["tolerance"]


def record(folder: Path, largest: float, rows: int) -> None:
    """Write the outcome into the manifest, under a temporary name first."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["parity"] = {
        "runtime": f"onnxruntime {onnxruntime.__version__}",
        "rows": rows,
        "max_relative_difference": largest,
    }
    with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as file:
        json.dump(manifest, file, indent=2, ensure_ascii=False)
        file.write("\n")
    os.chmod(file.name, path.stat().st_mode)
    os.replace(file.name, path)


def main() -> int:
    """Check one folder and tell whether it passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder with model.onnx and parity.json")
    parser.add_argument("--record", action="store_true", help="write the outcome into manifest.json")
    parser.add_argument("--check-model", action="store_true", help="also hold the model against the ONNX standard")
    arguments = parser.parse_args()
    if arguments.check_model:
        import onnx

        onnx.checker.check_model(arguments.folder / "model.onnx", full_check=True)
    outputs, rows, tolerance = compare(arguments.folder)
    for name, value in outputs.items():
        print(f"{name}: {value:.2e}")
    largest = max(outputs.values())
    passed = largest <= tolerance
    print(
        f"max relative difference {largest:.2e} over {rows} rows (tolerance {tolerance:.0e}): "
        f"{'passed' if passed else 'FAILED'}"
    )
    if arguments.record and passed:
        record(arguments.folder, largest, rows)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
