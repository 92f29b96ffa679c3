"""Backend `triton/interpreter`: Inductor's Triton kernels, made without a device and run by Triton's interpreter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mindgap.graph import Graph
from mindgap.platforms.delegation import Delegation
from mindgap.platforms.host_runtime import HostRuntime, Option
from mindgap.platforms.protocol import (
    EXECUTION,
    PYTORCH_DECOMPOSITIONS,
    Array,
    CompileFailure,
    Executable,
    Unsupported,
)
from mindgap.platforms.pytorch.device.devices import DEVICES

if TYPE_CHECKING:
    import torch
    import torch.fx

    from mindgap.platforms.pytorch.compilation.compiled import Program

_MODULES: Final = {"torch": "torch", "triton": "triton"}
_EXECUTION: Final = "emulated"
_BLOCK: Final = Option(
    "block",
    "most elements of a block along each axis: as Inductor chooses them (default), or 16, so that masks are used more",
    ("default", "small"),
)


class TritonInterpreterPlatform:
    """Compiles graphs with Inductor's Triton code generation, and interprets the kernels."""

    def __init__(self, block: str) -> None:
        from mindgap.aten.torch_private import triton_kernels
        from mindgap.platforms.pytorch.device import settings

        self._block = block
        self._device = DEVICES["cpu"]
        self._description = settings.establish({}, self._device)
        triton_kernels.interpret_triton(small=block == "small", by_numpy=_by_numpy)

    def describe(self) -> Mapping[str, Any]:
        from importlib.metadata import version

        description = dict(self._description)
        description["versions"] = {**description.get("versions", {}), "triton": version("triton")}
        return {**description, EXECUTION: _EXECUTION, PYTORCH_DECOMPOSITIONS: True, "block": self._block}

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Executable:
        """Compiles and runs the graph once. Raises `Unsupported` for a kernel or function that has no interpretation
        here, and for a graph of which Inductor makes no Triton kernel; else `CompileFailure`."""
        from mindgap.aten.torch_private.triton_kernels import recorded
        from mindgap.platforms.pytorch.compilation import compiled, torch_compile

        def compile_program(
            module: torch.fx.GraphModule, sample: Sequence[torch.Tensor], run: Callable[[Program], Any]
        ) -> Program:
            return torch_compile.compile_graph(module, "inductor", run)

        with recorded() as seen:
            try:
                executable: Any = compiled.load(graph, self._device, {}, inputs, compile_program, False)
            except CompileFailure as error:
                if seen.refused:
                    raise Unsupported("model", f"Triton's interpreter has not {seen.refused[0]}") from error
                raise
        if isinstance(executable, compiled.Failing):
            return executable
        if not seen.kernels:
            raise Unsupported("model", "Inductor makes no Triton kernel of it")
        delegation = Delegation("Triton's interpreter", dict(seen.kernels), dict(seen.others), "PyTorch's CPU kernels")
        executable.facts |= delegation.as_fact()
        return executable


BACKEND: Final = HostRuntime(
    _MODULES,
    lambda options: TritonInterpreterPlatform(options["block"]),
    (_BLOCK,),
    lambda options: {"TRITON_INTERPRET": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"},
    packages=("triton",),
    recipe=Path(__file__).with_name("triton.toml"),
    execution=_EXECUTION,
)


def _by_numpy(function: Any) -> Callable[..., Any]:
    """A function of kernels, by element or a reduction, that computes with numpy on the interpreter's arrays."""

    def call(*operands: Any, **ignored: Any) -> Any:
        tl, make = import_module("triton.language"), import_module("triton.runtime.interpreter").TensorHandle
        tensors = [each for each in operands if isinstance(each, tl.tensor)]
        data = [each.handle.data if isinstance(each, tl.tensor) else getattr(each, "value", each) for each in operands]
        with np.errstate(all="ignore"):
            computed = np.asarray(function(*data))
        # The operand that the others are broadcast to; of a reduction, the one that is reduced.
        like = next((each for each in tensors if each.handle.data.shape == computed.shape), tensors[0])
        kind = tl.block_type(like.dtype, [*computed.shape]) if computed.shape else like.dtype
        return tl.tensor(make(computed.astype(like.handle.data.dtype), like.handle.dtype), kind)

    return call
