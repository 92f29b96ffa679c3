"""Measures which precision and how many threads an execution provider computes with.

ONNX Runtime gives back neither the provider's options nor what they do, so a small model shows them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import numpy as np

from mindgap.platforms.onnxruntime.session import runtime
from mindgap.platforms.protocol import Array, Fallback
from mindgap_runtimes.onnxruntime_providers.execution_provider import ProviderSettings, assigned

#: Bits of mantissa that a product by 1 keeps -> the dtype of its operands.
_DTYPE_OF_BITS: Final = {23: "float32", 10: "float16", 7: "bfloat16"}
#: Options that do not change the dtype.
_NO_DTYPE: Final = ("delegate", "opt", "threads")
_SIZE: Final = 256
_MOST_TEXT: Final = 200
_RUNS: Final = 20
#: A thread with less than this part of the time of the busiest one computes nothing.
_IDLE: Final = 0.1
_TASKS: Final = Path("/proc/self/task")


def require_settings(settings: ProviderSettings) -> str:
    """Returns the dtype in which products of float32 are computed. Raises `Fallback` for one that was not requested, a
    provider that is not registered, and more threads than requested. Of a provider that need not take the model that
    shows it (`measures`), `unknown` with the reason."""
    provider = settings.provider
    registered = runtime().get_available_providers()
    if settings.delegates and not provider.plugin and provider.name not in registered:
        raise Fallback(f"ONNX Runtime has registered {registered}, not {provider.name}")
    values = _values()
    feeds = {"x": values, "image": values.reshape(1, 1, _SIZE, _SIZE)}
    try:
        session = _session(settings)
        assignment = assigned(session, settings)
        results: list[Array] = session.run(None, feeds)
    except Exception as error:
        if provider.measures:
            raise
        return f"unknown: {str(error)[:_MOST_TEXT]}"
    if assignment.gave_back:
        reason = f"{provider.name} gave back {sorted(assignment.gave_back)} of a matrix product and a convolution"
        if provider.measures:
            raise Fallback(reason)
        return f"unknown: {reason}"
    precision = _precision(results, values)
    if settings.dtype not in ("", precision):
        settings_text = ", ".join(
            f"{name}={value}" for name, value in settings.options.items() if name not in _NO_DTYPE
        )
        raise Fallback(
            f"{settings_text} is not in force: products are computed in {precision}, not in {settings.dtype}"
        )
    busy = None if settings.threads is None else _busy_threads(session, feeds)
    if settings.threads is not None and busy is not None and busy > settings.threads:
        raise Fallback(f"threads={settings.threads} is not in force: {busy} threads compute")
    return precision


def _values() -> Array:
    """1 + 2⁻ᵏ for k from 1 to 23, again and again: one row of a matrix like the other."""
    row = 1 + np.exp2(-(np.arange(_SIZE) % 23 + 1.0))
    return np.tile(row.astype(np.float32), (_SIZE, 1))


def _session(settings: ProviderSettings) -> Any:
    """A matrix product by the identity, and a convolution whose kernel has a single 1."""
    import onnx

    from mindgap.platforms.onnx.export import Exported

    kernel = np.zeros((1, 1, 3, 3), np.float32)
    kernel[0, 0, 1, 1] = 1
    floats = onnx.TensorProto.FLOAT
    square, image = [_SIZE, _SIZE], [1, 1, _SIZE, _SIZE]
    make = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node("MatMul", ["x", "identity"], ["product"], name="product"),
            onnx.helper.make_node("Conv", ["image", "kernel"], ["filtered"], name="filtered", pads=[1, 1, 1, 1]),
        ],
        "settings",
        [make("x", floats, square), make("image", floats, image)],
        [make("product", floats, square), make("filtered", floats, image)],
        [
            onnx.numpy_helper.from_array(np.eye(_SIZE, dtype=np.float32), "identity"),
            onnx.numpy_helper.from_array(kernel, "kernel"),
        ],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10)
    exported = Exported(model.SerializeToString(), ("x", "image"), (0, 1), ("product", "filtered"), {}, {})
    return settings.session(exported, alone=False)


def _precision(found: list[Array], values: Array) -> str:
    """The dtype of the operands of both: of each, the number of leading columns that come out as they went in."""
    names = {_dtype_of(array.reshape(values.shape)[0, :23], values[0, :23]) for array in found}
    return names.pop() if len(names) == 1 else f"matrix product and convolution differ: {', '.join(sorted(names))}"


def _dtype_of(row: Array, exact: Array) -> str:
    # Some runtimes return values of a 16-bit format with stray bits in float32.
    kept = np.abs(row - exact) <= (exact - 1) / 4
    bits = len(kept) if kept.all() else int(np.argmin(kept))
    return _DTYPE_OF_BITS.get(bits, f"{bits} bits")


def _busy_threads(session: Any, feeds: dict[str, Array]) -> int | None:
    """Counts the threads of this process that compute when the session runs. None where the system does not tell."""
    if not (_TASKS / str(os.getpid()) / "schedstat").exists():
        return None
    before = _thread_times()
    for _ in range(_RUNS):
        session.run(None, feeds)
    spent = [time - before.get(thread, 0) for thread, time in _thread_times().items()]
    return sum(each >= _IDLE * max(spent) for each in spent)


def _thread_times() -> dict[str, int]:
    """Nanoseconds of processor time of each thread of this process."""
    times: dict[str, int] = {}
    for task in _TASKS.iterdir():
        try:
            times[task.name] = int((task / "schedstat").read_text().split()[0])
        except OSError:  # the thread has ended
            continue
    return times
