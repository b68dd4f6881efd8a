"""The execution plans that cuDNN offers for a convolution, as PyTorch asks for them and sifts them."""

from __future__ import annotations

from dataclasses import dataclass

from cudnn_workspaces.convolution import Direction, Layout, Precision, Shape, strides_of
from cudnn_workspaces.devices import Device
from cudnn_workspaces.library import Attribute as A
from cudnn_workspaces.library import CudnnError, Descriptor, Descriptors, DescriptorType, Library
from cudnn_workspaces.library import ValueType as V

_INSTANT, _FALLBACK = 0, 2
"""Of ``cudnnBackendHeurMode_t``: what PyTorch asks for first, and when nothing of that runs."""
_TENSOR_CORE, _DOWN_CONVERTS_INPUTS = 0, 1
"""Of ``cudnnBackendNumericalNote_t``."""
_MOST_NOTES = 16
_ALIGNMENT = 16
"""Bytes. PyTorch's blocks are aligned to more; cuDNN answers the same for 32."""
_FLOAT = 0
_DATA_TYPES = {Precision.FP32_TF32: _FLOAT, Precision.FP32: _FLOAT, Precision.FP16: 2, Precision.BF16: 9}
_CROSS_CORRELATION = 1


@dataclass(frozen=True)
class Plan:
    """One way to run a convolution."""

    engine: int
    """cuDNN's number of the engine; the numbers change between versions."""
    bytes: int
    """The workspace."""


@dataclass(frozen=True)
class _Operation:
    """The descriptor of a direction's operation and its attributes."""

    kind: DescriptorType
    first_attribute: int
    """Alpha; beta and the convolution come next."""
    filter: int
    input: int
    output: int


_OPERATIONS = {
    Direction.FORWARD: _Operation(DescriptorType.CONVOLUTION_FORWARD, 700, filter=703, input=704, output=705),
    Direction.DATA_GRADIENT: _Operation(
        DescriptorType.CONVOLUTION_DATA_GRADIENT, 706, filter=709, input=710, output=711
    ),
    Direction.FILTER_GRADIENT: _Operation(
        DescriptorType.CONVOLUTION_FILTER_GRADIENT, 712, filter=715, input=716, output=717
    ),
}


class Planner:
    """Asks a loaded cuDNN about convolutions on one device."""

    def __init__(self, library: Library, device: Device) -> None:
        self.library = library
        self._device = library.create(DescriptorType.DEVICE_PROPERTIES)  # Lives as long as the process.
        library.set_text(self._device, A.DEVICE_JSON, device.to_json())
        library.finalize(self._device, f"device {device.name}")

    def plans(self, shape: Shape, direction: Direction, precision: Precision, layout: Layout) -> list[Plan]:
        """The plans that PyTorch would try, in its order; without ``cudnn.benchmark`` the first one runs.

        Like PyTorch (``aten/src/ATen/native/cudnn/Conv_v8.cpp``): the instant heuristics, the fallback engines where
        those offer nothing, no engine that rounds its inputs to a smaller type, and none on tensor cores for fp32
        where TF32 is not allowed.

        Raises:
            CudnnError: cuDNN refuses the convolution.
        """
        with self.library.descriptors() as made:
            graph = self._graph(made, shape, direction, precision, layout)
            return self._offered(made, graph, _INSTANT, precision) or self._offered(made, graph, _FALLBACK, precision)

    def _graph(
        self, made: Descriptors, shape: Shape, direction: Direction, precision: Precision, layout: Layout
    ) -> Descriptor:
        library, wiring = self.library, _OPERATIONS[direction]
        operation = made.new(wiring.kind)
        for attribute, value in ((wiring.first_attribute, 1.0), (wiring.first_attribute + 1, 0.0)):
            library.set(operation, attribute, V.FLOAT, [value])
        library.set_descriptor(operation, wiring.first_attribute + 2, self._convolution(made, shape))
        tensors = (
            (wiring.filter, shape.filter_dimensions, "w"),
            (wiring.input, shape.input_dimensions, "x"),
            (wiring.output, shape.output_dimensions, "y"),
        )
        for attribute, dimensions, name in tensors:
            tensor = made.new(DescriptorType.TENSOR)
            library.set(tensor, A.TENSOR_DATA_TYPE, V.DATA_TYPE, [_DATA_TYPES[precision]])
            library.set(tensor, A.TENSOR_DIMENSIONS, V.INT64, dimensions)
            library.set(tensor, A.TENSOR_STRIDES, V.INT64, strides_of(dimensions, layout))
            library.set(tensor, A.TENSOR_UNIQUE_ID, V.INT64, [ord(name)])
            library.set(tensor, A.TENSOR_ALIGNMENT, V.INT64, [_ALIGNMENT])
            library.finalize(tensor, f"tensor {name} {dimensions}")
            library.set_descriptor(operation, attribute, tensor)
        library.finalize(operation, f"{direction.value} of {shape}")
        graph = made.new(DescriptorType.OPERATION_GRAPH)
        library.set_descriptor(graph, A.GRAPH_OPERATIONS, operation)
        library.finalize(graph, f"graph of {shape}")
        return graph

    def _convolution(self, made: Descriptors, shape: Shape) -> Descriptor:
        library, convolution = self.library, made.new(DescriptorType.CONVOLUTION)
        paddings = (shape.padding_h, shape.padding_w)
        library.set(convolution, A.CONVOLUTION_SPATIAL_DIMENSIONS, V.INT64, [2])
        library.set(convolution, A.CONVOLUTION_COMPUTE_TYPE, V.DATA_TYPE, [_FLOAT])
        library.set(convolution, A.CONVOLUTION_MODE, V.CONVOLUTION_MODE, [_CROSS_CORRELATION])
        library.set(convolution, A.CONVOLUTION_PRE_PADDINGS, V.INT64, paddings)
        library.set(convolution, A.CONVOLUTION_POST_PADDINGS, V.INT64, paddings)
        library.set(convolution, A.CONVOLUTION_DILATIONS, V.INT64, [shape.dilation] * 2)
        library.set(convolution, A.CONVOLUTION_STRIDES, V.INT64, [shape.stride] * 2)
        library.finalize(convolution, "convolution")
        return convolution

    def _offered(self, made: Descriptors, graph: Descriptor, mode: int, precision: Precision) -> list[Plan]:
        library = self.library
        heuristics = made.new(DescriptorType.HEURISTICS)
        library.set_descriptor(heuristics, A.HEURISTICS_OPERATION_GRAPH, graph)
        library.set(heuristics, A.HEURISTICS_MODE, V.HEURISTICS_MODE, [mode])
        library.set_descriptor(heuristics, A.HEURISTICS_DEVICE_PROPERTIES, self._device)
        library.finalize(heuristics, "heuristics")
        count = library.get_into(heuristics, A.HEURISTICS_RESULTS, V.DESCRIPTOR, None)
        configs = [made.new(DescriptorType.ENGINE_CONFIG) for _ in range(count)]
        found = library.get_into(heuristics, A.HEURISTICS_RESULTS, V.DESCRIPTOR, (Descriptor * count)(*configs))
        plans = (self._plan(made, config, precision) for config in configs[:found])
        return [plan for plan in plans if plan]

    def _plan(self, made: Descriptors, config: Descriptor, precision: Precision) -> Plan | None:
        """The plan of an engine's configuration; none where PyTorch's filter drops it or cuDNN cannot build it."""
        library = self.library
        engine = made.new(DescriptorType.ENGINE)
        library.get_into(config, A.CONFIG_ENGINE, V.DESCRIPTOR, (Descriptor * 1)(engine))
        notes = library.get(engine, A.ENGINE_NUMERICAL_NOTES, V.NUMERICAL_NOTE, _MOST_NOTES)
        if _DOWN_CONVERTS_INPUTS in notes or (precision is Precision.FP32 and _TENSOR_CORE in notes):
            return None
        plan = made.new(DescriptorType.EXECUTION_PLAN)
        try:
            library.set_descriptor(plan, A.PLAN_ENGINE_CONFIG, config)
            library.set_descriptor(plan, A.PLAN_DEVICE_PROPERTIES, self._device)
            library.finalize(plan, "plan")
        except CudnnError:
            return None
        (index,) = library.get(engine, A.ENGINE_GLOBAL_INDEX, V.INT64, 1)
        (size,) = library.get(plan, A.PLAN_WORKSPACE_BYTES, V.INT64, 1)
        return Plan(index, size)
