"""Inductor's Triton kernels without a device: made for the CPU, and run by Triton's interpreter.

Inductor has a setting that writes Triton for the CPU. What it calls besides is replaced: the driver, which is queried
for the target; the launcher, which compiles and tunes; and the mathematical functions of the maker's library, of which
the interpreter knows none.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import torch
import torch._inductor.async_compile
import torch._inductor.codecache
import torch._inductor.graph
import torch.utils._triton

from mindgap.aten.torch_private.inductor import inductor_config

#: Decorators of kernels that are launched here, and those that are not.
_LAUNCHED: Final = ("pointwise", "reduction", "persistent_reduction")
_NOT_LAUNCHED: Final = (
    "cooperative_reduction", "split_scan", "template", "fixed_config", "user_autotune", "foreach",
)  # fmt: skip
#: Most elements of a block along each axis, as Inductor's own choices have them.
_LARGEST: Final = {"pointwise": {"x": 1024, "y": 32, "z": 16}, "reduction": {"x": 8, "y": 8, "z": 8}}
_LARGEST_REDUCED: Final = 2048
_SMALL: Final = 16
_EXTERN: Final = re.compile(r"(?:extern_kernels\.|torch\.ops\.(?=aten\.))([\w.]+)\(")


#: Functions of the maker's library that are numpy's of the same name. Others of `tl.math` come from there.
_IN_NUMPY: Final = (
    "tanh", "sinh", "cosh", "tan", "asin", "acos", "atan", "atan2", "asinh", "acosh", "atanh", "expm1", "log1p",
    "log10", "pow", "fmod", "hypot", "copysign", "trunc", "rint", "nextafter", "exp", "log", "sin", "cos", "sqrt",
    "exp2", "log2", "floor", "ceil", "abs",
)  # fmt: skip


class NoInterpretation(Exception):
    """A kernel or function that is not run here. A refusal: the device runs it."""


@dataclass
class TritonRun:
    """What happened while a graph was compiled and run. `kernels`: the Triton kernels, by name. `others`: what
    PyTorch's own kernels ran, by Inductor's names. `refused`: what has no interpretation here."""

    kernels: Counter[str] = field(default_factory=Counter[str])
    others: Counter[str] = field(default_factory=Counter[str])
    refused: list[str] = field(default_factory=list[str])


#: Gives Triton a target where there is no device.
_NO_DRIVER: Final = SimpleNamespace(
    get_current_target=lambda: _triton("backends.compiler").GPUTarget("cpu", 0, 1), get_current_device=lambda: 0,
    get_current_stream=lambda device=0: 0, get_active_torch_device=lambda: torch.device("cpu"),
)  # fmt: skip


@dataclass(frozen=True)
class InterpretedKernel:
    """Launches one interpreted kernel over the grid that its block sizes need."""

    function: Any
    name: str
    kind: str
    size_hints: Any
    small: bool
    seen: Callable[[], TritonRun]

    def run(self, *arguments: Any, stream: Any = None, **more: Any) -> None:
        names = list(inspect.signature(self.function.fn).parameters)
        given = {**dict(zip(names, arguments, strict=False)), **more}
        blocks = {name: self._block(name) for name in names if name.endswith("BLOCK") and name not in given}
        grid = tuple(
            -(-int(given[f"{axis}numel"]) // blocks[f"{axis.upper()}BLOCK"]) if f"{axis.upper()}BLOCK" in blocks else 1
            for axis in "xyz"
        )
        self.function[grid](*arguments, **more, **blocks)
        self.seen().kernels[self.name] += 1

    def _block(self, name: str) -> int:
        axis = name.removesuffix("BLOCK").lower()
        largest = _LARGEST[self.kind].get(axis, _LARGEST_REDUCED)
        return min(int(dict(self.size_hints).get(axis, largest)), largest, *([_SMALL] if self.small else []))


class _Functions:
    """The mathematical functions that kernels call: numpy's, or Triton's own."""

    def __init__(self, by_numpy: Callable[[Any], Any]) -> None:
        self._by_numpy = by_numpy

    def __getattr__(self, name: str) -> Any:
        if (known := {"nearbyint": "rint"}.get(name, name)) in _IN_NUMPY:
            return self._by_numpy(getattr(np, known))
        if hasattr(_triton("language").math, name):
            return getattr(_triton("language").math, name)
        _current().refused.append(f"the function {name} of the maker's library")
        raise NoInterpretation(name)


_run = TritonRun()


def _current() -> TritonRun:
    return _run


@contextmanager
def recorded() -> Generator[TritonRun]:
    """Records what the block compiles and runs."""
    global _run
    before, _run = _run, TritonRun()
    try:
        yield _run
    finally:
        _run = before


def interpret_triton(*, small: bool, by_numpy: Callable[[Any], Any]) -> None:
    """Makes Inductor write Triton for the CPU, and run it in the interpreter, for the rest of this process.

    small: blocks of 16 elements along each axis at most. by_numpy: makes a kernel's function of numpy's.
    `TRITON_INTERPRET=1` has to be set before Triton is imported.
    """
    from torch._inductor.runtime import triton_helpers, triton_heuristics

    helpers: Any = triton_helpers
    _triton("runtime").driver.set_active(_NO_DRIVER)
    helpers.set_driver_to_cpu = lambda: None
    helpers.libdevice = _Functions(by_numpy)
    # The interpreter runs a reduction by a function of Inductor's element by element, a millisecond each. numpy's
    # maximum and minimum give NaN for NaN as Inductor's do.
    helpers.max2, helpers.min2 = by_numpy(np.max), by_numpy(np.min)
    private: Any = torch.utils._triton
    private.triton_hash_with_backend = lambda: "interpreter"
    compiler: Any = torch._inductor.async_compile.AsyncCompile
    compiler.triton = _load
    for kind in _LAUNCHED:
        setattr(triton_heuristics, kind, _launched(kind, small=small))
    for kind in _NOT_LAUNCHED:
        setattr(triton_heuristics, kind, _refused(kind))
    graph: Any = torch._inductor.graph.GraphLowering
    graph.save_output_code = staticmethod(_note_others)
    inductor_config.cpu_backend = "triton"
    # A cached graph would not be seen.
    inductor_config.force_disable_caches = True


def _triton(module: str) -> Any:
    """A module of Triton, which is in a separate environment."""
    return importlib.import_module(f"triton.{module}")


def _load(self: Any, name: str, source: str, device_str: str = "") -> Any:
    """Loads a kernel's source, in the place of `AsyncCompile.triton`."""
    cache: Any = torch._inductor.codecache.PyCodeCache
    return getattr(cache.load(source), name)


def _note_others(code: str) -> None:
    """Notes what PyTorch's own kernels run of a graph, by the code that calls them."""
    _current().others.update([str(each) for each in _EXTERN.findall(code)])


def _launched(kind: str, *, small: bool) -> Callable[..., Any]:
    def decorate(size_hints: Any = None, *, inductor_meta: Any, **ignored: Any) -> Callable[[Any], InterpretedKernel]:
        axes = "pointwise" if kind == "pointwise" else "reduction"
        name = str(inductor_meta["kernel_name"])
        return lambda function: InterpretedKernel(function, name, axes, size_hints, small, _current)

    return decorate


def _refused(kind: str) -> Callable[..., Any]:
    def decorate(*arguments: Any, **ignored: Any) -> Callable[[Any], Any]:
        _current().refused.append(f"kernels of the kind {kind}")
        raise NoInterpretation(kind)

    return decorate
