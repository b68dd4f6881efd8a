"""Describes the GPUs of Plimsoll's catalogue to cuDNN."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomllib

CATALOGUE = Path(__file__).parents[2] / "crates/plimsoll-graph/src/gpus.toml"

DEVICES = (
    "v100-16", "t4", "rtx-2080-ti", "a100-40", "a30", "rtx-3090", "a10", "a40",
    "l4", "l40s", "rtx-4090", "h100-80", "h200", "b200", "rtx-5090",
)  # fmt: skip
"""The GPUs that a generated table is about."""


@dataclass(frozen=True)
class Multiprocessor:
    """What a multiprocessor offers: the table of compute capabilities in the CUDA programming guide."""

    cores: int
    """FP32 lanes, for the clock that a peak throughput implies."""
    threads: int
    blocks: int
    shared_bytes: int
    shared_bytes_per_block: int
    """At most, when a kernel asks for it."""
    memory_bus_bits: int
    """Of the usual board, for the memory clock that a bandwidth implies. cuDNN looks at clocks on Hopper only."""


MULTIPROCESSORS = {
    7.0: Multiprocessor(64, 2048, 32, 98_304, 98_304, 4096),
    7.5: Multiprocessor(64, 1024, 16, 65_536, 65_536, 256),
    8.0: Multiprocessor(64, 2048, 32, 167_936, 166_912, 5120),
    8.6: Multiprocessor(128, 1536, 16, 102_400, 101_376, 384),
    8.9: Multiprocessor(128, 1536, 24, 102_400, 101_376, 384),
    9.0: Multiprocessor(128, 2048, 32, 233_472, 232_448, 5120),
    10.0: Multiprocessor(128, 2048, 32, 233_472, 232_448, 8192),
    12.0: Multiprocessor(128, 1536, 24, 102_400, 101_376, 512),
}

_WIDER_BUSES = {"h200": 6144, "h100-nvl": 6144}


@dataclass(frozen=True)
class Device:
    """A GPU as cuDNN sees it."""

    name: str
    compute_capability: float
    multiprocessors: int
    memory_bytes: int
    l2_bytes: int
    clock_khz: int
    memory_clock_khz: int

    def to_json(self) -> str:
        """The text of cuDNN's device descriptor."""
        unit = MULTIPROCESSORS[self.compute_capability]
        return json.dumps(
            {
                "deviceVer": round(self.compute_capability * 100),
                "driverVer": 13000,
                "cudaDeviceId": 0,
                "deviceName": self.name,
                "multiProcessorCount": self.multiprocessors,
                "totalGlobalMem": self.memory_bytes,
                "maxGridSize": [2_147_483_647, 65_535, 65_535],
                "maxBlockSize": [1024, 1024, 64],
                "regsPerBlock": 65_536,
                "smClockRateKHz": self.clock_khz,
                "memClockRateKHz": self.memory_clock_khz,
                "l2CacheSize": self.l2_bytes,
                "warpSize": 32,
                "maxSharedMemoryPerBlock": 49_152,
                "maxSharedMemoryPerBlockOptin": unit.shared_bytes_per_block,
                "reservedSharedMemoryPerBlock": 1024 if self.compute_capability >= 8 else 0,
                "maxRegistersPerSM": 65_536,
                "maxSharedMemoryPerSM": unit.shared_bytes,
                "pciDeviceId": 0,
                "maxCtasPerSM": unit.blocks,
                "maxThreadsPerBlock": 1024,
                "maxThreadsPerSM": unit.threads,
                "isTccDriver": 0,
                "supportCoopLaunch": 1,
            }
        )


def load_devices(catalogue: Path = CATALOGUE) -> dict[str, Device]:
    """The catalogue's GPUs that cuDNN can be told about, by name.

    Raises:
        ValueError: The file is not a catalogue.
    """
    try:
        entries = tomllib.loads(catalogue.read_text())["gpu"]
        return {entry["name"]: _device(entry) for entry in entries if entry["compute_capability"] in MULTIPROCESSORS}
    except (KeyError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{catalogue}: expected a list of [[gpu]] entries, found {error!r}") from error


def _device(entry: dict[str, Any]) -> Device:
    capability = float(entry["compute_capability"])
    unit, sms = MULTIPROCESSORS[capability], int(entry["sms"])
    slice_of_gpu = entry.get("mig", {"parent": entry["name"], "memory_slices": 8})
    bus_bits = _WIDER_BUSES.get(slice_of_gpu["parent"], unit.memory_bus_bits) * slice_of_gpu["memory_slices"] / 8
    return Device(
        name=str(entry["name"]),
        compute_capability=capability,
        multiprocessors=sms,
        memory_bytes=int(entry["memory_mib"]) << 20,
        l2_bytes=round(entry["l2_mib"] * 2**20),
        clock_khz=round(entry["fp32_tflops"] * 1e9 / (2 * sms * unit.cores)),
        memory_clock_khz=round(entry["bandwidth_gb_s"] * 1e6 * 8 / (2 * bus_bits)),
    )
