"""Runs a compiled module on IREE's virtual machine, with arrays in and out."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from mindgap.graph import TensorSpec, dtype_name, kind_of, numpy_dtype
from mindgap.platforms.onnx.arrays import carrier
from mindgap.platforms.protocol import Array, RunFailure, Unsupported

#: IREE's element type -> the dtype's name, for types that are no integers.
_DTYPES: Final = {
    "FLOAT_16": "float16",
    "FLOAT_32": "float32",
    "FLOAT_64": "float64",
    "BFLOAT_16": "bfloat16",
    "FLOAT_8_E4M3_FN": "float8_e4m3fn",
    "FLOAT_8_E4M3_FNUZ": "float8_e4m3fnuz",
    "FLOAT_8_E5M2": "float8_e5m2",
    "FLOAT_8_E5M2_FNUZ": "float8_e5m2fnuz",
    "COMPLEX_64": "complex64",
    "COMPLEX_128": "complex128",
    "BOOL_8": "bool",
}
_INTEGERS: Final = [f"{sign}INT_{bits}" for sign in ("", "S", "U") for bits in (8, 16, 32, 64)]


class Module:
    """The function `main` of a compiled module, on a device. Several may be loaded at a time.

    `parameters`: those that are not in the module, by name, in `scope`.
    """

    def __init__(self, device: Any, program: bytes, parameters: Mapping[str, Array], scope: str) -> None:
        self._runtime: Any = importlib.import_module("iree.runtime")
        self._device = device
        instance = self._runtime.VmInstance()
        modules = [self._runtime.create_hal_module(instance, device)]
        if parameters:
            index = self._runtime.ParameterIndex()
            for name, array in parameters.items():
                index.add_buffer(name, array.tobytes())
            modules.append(self._runtime.create_io_parameters_module(instance, index.create_provider(scope=scope)))
        module = self._runtime.VmModule.copy_buffer(instance, program)
        self._context = self._runtime.VmContext(instance, modules=[*modules, module])
        self._function = module.lookup_function("main")

    def run(self, inputs: Sequence[Array], outputs: Sequence[TensorSpec | None]) -> list[Array]:
        """Runs the module. `outputs`: what the graph declares, which has the sign of integers."""
        runtime = self._runtime
        given, results = runtime.VmVariantList(len(inputs)), runtime.VmVariantList(len(outputs))
        for array in inputs:
            given.push_ref(self._view_of(array))
        self._context.invoke(self._function, given, results)
        if len(results) != len(outputs):
            raise RunFailure(f"IREE returned {len(results)} results, not {len(outputs)}")
        views = (results.get_as_object(number, runtime.HalBufferView) for number in range(len(outputs)))
        return [self._array_of(view, spec) for view, spec in zip(views, outputs, strict=True)]

    def _view_of(self, array: Array) -> Any:
        runtime = self._runtime
        if hasattr(runtime, "dtypes"):
            element = runtime.dtypes.map_dtype_to_hal_element_type(array.dtype)
        else:  # before 3.10
            element = runtime.array_interop.map_dtype_to_element_type(array.dtype)
        if element is None:
            raise Unsupported("model", f"IREE's runtime has no dtype {dtype_name(array.dtype)}")
        return self._device.allocator.allocate_buffer_copy(
            memory_type=runtime.MemoryType.DEVICE_LOCAL,
            allowed_usage=runtime.BufferUsage.DEFAULT,
            device=self._device,
            buffer=np.array(array, order="C").view(carrier(array.dtype)),
            element_type=element,
        )

    def _array_of(self, view: Any, spec: TensorSpec | None) -> Array:
        """Copies a result."""
        types = self._runtime.HalElementType
        named = {int(getattr(types, name)): name for name in (*_DTYPES, *_INTEGERS)}
        if view.element_type not in named:
            raise RunFailure(f"IREE returned elements of its type {view.element_type:#x}")
        dtype = numpy_dtype(_dtype(named[view.element_type], spec))
        shape = tuple(view.shape)
        if 0 in shape:
            return np.empty(shape, dtype)
        carried = np.dtype(np.uint8) if dtype == np.bool_ else carrier(dtype)
        raw = np.array(self._mapped(view).asarray(shape, carried), order="C")
        return raw.astype(dtype) if dtype == np.bool_ else raw.view(dtype)

    def _mapped(self, view: Any) -> Any:
        """The memory of a result. What a device does not map is copied to a buffer that it does."""
        runtime, buffer = self._runtime, view.get_buffer()
        if buffer.allowed_usage() & int(runtime.BufferUsage.MAPPING_SCOPED):
            return view.map()
        copy = self._device.allocator.allocate_buffer(
            memory_type=runtime.MemoryType.HOST_LOCAL | runtime.MemoryType.DEVICE_VISIBLE,
            allowed_usage=runtime.BufferUsage.TRANSFER | runtime.BufferUsage.MAPPING,
            allocation_size=buffer.byte_length(),
        )
        done = self._device.create_semaphore(0)
        self._device.queue_copy(buffer, copy, [], [(done, 1)])
        done.wait(1)
        return copy.map()


def _dtype(element: str, spec: TensorSpec | None) -> str:
    """Returns the dtype of an element type of IREE's (`FLOAT_32`, `INT_8`).

    IREE's integers have no sign: one that is as wide as the declared dtype is of that dtype.
    """
    if element in _DTYPES:
        return _DTYPES[element]
    kind, _, bits = element.partition("_")
    if spec is not None and kind_of(spec.dtype) == "int" and numpy_dtype(spec.dtype).itemsize * 8 == int(bits):
        return spec.dtype
    return f"{'u' if kind == 'UINT' else ''}int{bits}"
