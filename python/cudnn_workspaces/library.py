"""Loads cuDNN from its pip packages and wraps the few calls of its backend interface that a query needs."""

from __future__ import annotations

import ctypes
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import Any

OLDEST_VERSION = 90800
"""The first cuDNN that takes a device descriptor."""


class CudnnError(Exception):
    """cuDNN is missing, too old, or refuses a call."""


class DescriptorType(IntEnum):
    """``cudnnBackendDescriptorType_t``, what is used of it."""

    CONVOLUTION = 1
    ENGINE = 2
    ENGINE_CONFIG = 3
    HEURISTICS = 4
    EXECUTION_PLAN = 5
    CONVOLUTION_FORWARD = 10
    CONVOLUTION_FILTER_GRADIENT = 11
    CONVOLUTION_DATA_GRADIENT = 12
    OPERATION_GRAPH = 15
    TENSOR = 17
    DEVICE_PROPERTIES = 38


class Attribute(IntEnum):
    """``cudnnBackendAttributeName_t``, what is used of it."""

    CONVOLUTION_COMPUTE_TYPE = 100
    CONVOLUTION_MODE = 101
    CONVOLUTION_DILATIONS = 102
    CONVOLUTION_STRIDES = 103
    CONVOLUTION_POST_PADDINGS = 104
    CONVOLUTION_PRE_PADDINGS = 105
    CONVOLUTION_SPATIAL_DIMENSIONS = 106
    HEURISTICS_MODE = 200
    HEURISTICS_OPERATION_GRAPH = 201
    HEURISTICS_RESULTS = 202
    HEURISTICS_DEVICE_PROPERTIES = 204
    CONFIG_ENGINE = 300
    PLAN_ENGINE_CONFIG = 401
    PLAN_WORKSPACE_BYTES = 402
    PLAN_DEVICE_PROPERTIES = 407
    GRAPH_OPERATIONS = 801
    TENSOR_ALIGNMENT = 900
    TENSOR_DATA_TYPE = 901
    TENSOR_DIMENSIONS = 902
    TENSOR_STRIDES = 903
    TENSOR_UNIQUE_ID = 906
    ENGINE_GLOBAL_INDEX = 1301
    ENGINE_NUMERICAL_NOTES = 1303
    DEVICE_JSON = 2702


class ValueType(IntEnum):
    """``cudnnBackendAttributeType_t``, what is used of it."""

    DATA_TYPE = 1
    INT64 = 3
    FLOAT = 4
    CONVOLUTION_MODE = 7
    HEURISTICS_MODE = 8
    NUMERICAL_NOTE = 11
    DESCRIPTOR = 15
    CHAR = 24


_C_TYPES: dict[ValueType, type[Any]] = {
    ValueType.DATA_TYPE: ctypes.c_int32,
    ValueType.INT64: ctypes.c_int64,
    ValueType.FLOAT: ctypes.c_float,
    ValueType.CONVOLUTION_MODE: ctypes.c_int32,
    ValueType.HEURISTICS_MODE: ctypes.c_int32,
    ValueType.NUMERICAL_NOTE: ctypes.c_int32,
    ValueType.DESCRIPTOR: ctypes.c_void_p,
}

Descriptor = ctypes.c_void_p


class Library:
    """A loaded cuDNN. One process can load one version only."""

    def __init__(self, cudnn_packages: Path | None = None, cuda_packages: Path | None = None) -> None:
        """Loads cuDNN and what it links against.

        Args:
            cudnn_packages: The folder with ``nvidia/cudnn/lib``; this Python's site-packages if not given.
            cuda_packages: The folder with the ``nvidia`` folders of CUDA's libraries; the same if not given.

        Raises:
            CudnnError: cuDNN is not there, cannot be loaded, or is older than 9.8.
        """
        cudnn_packages = cudnn_packages or Path(sysconfig.get_paths()["purelib"])
        _load_cuda(cuda_packages or cudnn_packages)
        path = cudnn_packages / "nvidia/cudnn/lib/libcudnn.so.9"
        try:
            self._library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise CudnnError(f"{path}: cannot load cuDNN (pip install nvidia-cudnn-cu12): {error}") from error
        self._library.cudnnGetErrorString.restype = ctypes.c_char_p
        self._library.cudnnGetVersion.restype = ctypes.c_size_t
        self.version = int(self._library.cudnnGetVersion())
        """As cuDNN counts: 91002 is 9.10.2."""
        if self.version < OLDEST_VERSION:
            raise CudnnError(f"{path}: is cuDNN {self.version}, expected {OLDEST_VERSION} or later")
        self._set = self._library.cudnnBackendSetAttribute
        self._get = self._library.cudnnBackendGetAttribute

    @contextmanager
    def descriptors(self) -> Iterator[Descriptors]:
        """Descriptors that are destroyed at the end of the block, the youngest first."""
        made = Descriptors(self)
        try:
            yield made
        finally:
            for descriptor in reversed(made.owned):
                self._library.cudnnBackendDestroyDescriptor(descriptor)

    def create(self, kind: DescriptorType) -> Descriptor:
        """A new descriptor, which the caller destroys."""
        descriptor = Descriptor()
        self.check(self._library.cudnnBackendCreateDescriptor(kind, ctypes.byref(descriptor)), kind)
        return descriptor

    def set(self, descriptor: Descriptor, name: int, kind: ValueType, values: Sequence[int | float]) -> None:
        """Sets a descriptor's attribute to numbers."""
        self._set_array(descriptor, name, kind, (_C_TYPES[kind] * len(values))(*values), len(values))

    def set_descriptor(self, descriptor: Descriptor, name: int, value: Descriptor) -> None:
        """Sets a descriptor's attribute to another descriptor."""
        self._set_array(descriptor, name, ValueType.DESCRIPTOR, (Descriptor * 1)(value), 1)

    def set_text(self, descriptor: Descriptor, name: int, text: str) -> None:
        """Sets a descriptor's attribute to text."""
        data = text.encode()
        self._set_array(descriptor, name, ValueType.CHAR, ctypes.create_string_buffer(data), len(data))

    def finalize(self, descriptor: Descriptor, what: str) -> None:
        """Makes a descriptor usable; here cuDNN refuses what it does not support."""
        self.check(self._library.cudnnBackendFinalize(descriptor), what)

    def get(self, descriptor: Descriptor, name: int, kind: ValueType, at_most: int) -> list[int]:
        """An attribute's numbers."""
        values = (_C_TYPES[kind] * at_most)()
        return [int(value) for value in values[: self.get_into(descriptor, name, kind, values)]]

    def get_into(
        self, descriptor: Descriptor, name: int, kind: ValueType, values: ctypes.Array[ctypes.c_void_p] | None
    ) -> int:
        """Fills an array with an attribute's values and returns how many there are; without one it only counts."""
        count = ctypes.c_int64()
        size = ctypes.c_int64(0 if values is None else len(values))
        self.check(self._get(descriptor, name, kind, size, ctypes.byref(count), values), name)
        return count.value

    def check(self, status: int, what: object) -> None:
        """Turns a status that is not success into an error.

        Raises:
            CudnnError: With what failed and cuDNN's own words.
        """
        if status:
            words = ctypes.create_string_buffer(1024)
            self._library.cudnnGetLastErrorString(words, ctypes.c_size_t(len(words)))
            name = self._library.cudnnGetErrorString(status).decode()
            raise CudnnError(f"{what!s}: {name} ({words.value.decode(errors='replace')})")

    def _set_array(self, descriptor: Descriptor, name: int, kind: ValueType, array: object, count: int) -> None:
        self.check(self._set(descriptor, name, kind, ctypes.c_int64(count), array), name)


class Descriptors:
    """Makes descriptors and remembers them, so that they can be destroyed."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.owned: list[Descriptor] = []

    def new(self, kind: DescriptorType) -> Descriptor:
        """A new descriptor."""
        descriptor = self.library.create(kind)
        self.owned.append(descriptor)
        return descriptor


def _load_cuda(packages: Path) -> None:
    """Loads the libraries of CUDA that cuDNN expects to find in the process; it says itself what it misses."""
    for name in ("libcudart", "libnvrtc", "libcublasLt", "libcublas"):
        for path in sorted(packages.glob(f"nvidia/*/lib/{name}.so.*")):
            ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
