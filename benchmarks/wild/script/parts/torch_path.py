"""Runs a model with PyTorch on the CPU: eager, TorchScript, Inductor, AOTInductor."""

# pyright: basic
# (torch is typed in parts only)

from __future__ import annotations

import contextlib
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from script.parts.tensors import copied, require_known


def run_eager(
    model: torch.nn.Module,
    arguments: Sequence[torch.Tensor],
    options: dict[str, str],
    stage: Callable[[str], None],
    invoke: Callable[..., list[torch.Tensor]],
) -> list[torch.Tensor]:
    """Runs eager mode under the options; options that act at import are in the environment already."""
    stage("run")
    with switched(options):
        return invoke(model, arguments)


def run_inductor(
    model: torch.nn.Module,
    arguments: Sequence[torch.Tensor],
    options: dict[str, str],
    stage: Callable[[str], None],
    invoke: Callable[..., list[torch.Tensor]],
) -> list[torch.Tensor]:
    """Runs torch.compile of the whole graph."""
    import torch._dynamo.config
    import torch._inductor.config

    stage("compile")
    patches: dict[str, bool | int] = {"freezing": options.get("freezing") == "1"}
    if "simdlen" in options:
        patches["cpp.simdlen"] = int(options["simdlen"])
    dynamic = {"capture_dynamic_output_shape_ops": True, "capture_scalar_outputs": True, "suppress_errors": False}
    compiled = torch.compile(model, fullgraph=True, dynamic=False, backend="inductor")
    with switched(options), torch._dynamo.config.patch(dynamic), torch._inductor.config.patch(patches):
        invoke(compiled, [copied(argument) for argument in arguments])
        stage("run")
        return invoke(compiled, arguments)


def run_aotinductor(
    model: torch.nn.Module,
    arguments: Sequence[torch.Tensor],
    options: dict[str, str],
    stage: Callable[[str], None],
    invoke: Callable[..., list[torch.Tensor]],
) -> list[torch.Tensor]:
    """Runs torch.export, then a package compiled ahead of time."""
    stage("export")
    with switched(options), torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        program = torch.export.export(model, tuple(copied(argument) for argument in arguments))
        stage("compile")
        package = os.path.join(folder, "model.pt2")
        torch._inductor.aoti_compile_and_package(program, package_path=package)
        loaded = torch._inductor.aoti_load_package(package)
        stage("run")
        return invoke(loaded, arguments)


def run_jit(
    model: torch.nn.Module,
    arguments: Sequence[torch.Tensor],
    options: dict[str, str],
    stage: Callable[[str], None],
    invoke: Callable[..., list[torch.Tensor]],
) -> list[torch.Tensor]:
    """Runs torch.jit.trace until the executor has optimised the program."""
    stage("compile")
    scripted = Scripted()
    with switched(options), torch.no_grad(), scripted:
        program = torch.jit.trace(model.eval(), tuple(copied(argument) for argument in arguments), check_trace=False)
        if options.get("freezing") == "1":
            program = torch.jit.freeze(program)
    stage("run")
    with switched(options):
        for _ in range(4):
            found = invoke(program, [copied(argument) for argument in arguments])
        del program, scripted
        return found


class Scripted(TorchFunctionMode):
    """Compiles calls that take a list of booleans as TorchScript functions: the tracer cannot record such lists.

    `units` owns those functions: a traced program that calls one must not outlive them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.units: list[Any] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        masks = [given for given in args if isinstance(given, (list, tuple)) and {type(b) for b in given} == {bool}]
        known = isinstance(func, torch._ops.OpOverload) and not kwargs and len(masks) == 1
        if not known or len(masks[0]) != len(func._schema.returns):
            return func(*args, **kwargs)
        operands: list[torch.Tensor] = []
        spelled = ", ".join(self.spelled(given, operands) for given in args)
        name, parameters = func._opname, ", ".join(f"x{number}: Tensor" for number in range(len(operands)))
        kept = "".join(f"made[{place}], " for place, wanted in enumerate(masks[0]) if wanted)
        call = f"torch.ops.{func.namespace}.{name}({spelled})"
        unit = torch.jit.CompilationUnit(f"def {name}({parameters}):\n    made = {call}\n    return ({kept})\n")
        self.units.append(unit)
        made = iter(getattr(unit, name)(*operands))
        return tuple(next(made) if wanted else None for wanted in masks[0])

    def spelled(self, given: Any, operands: list[torch.Tensor]) -> str:
        """Writes an argument in TorchScript; tensors are added to `operands`."""
        if isinstance(given, torch.Tensor):
            operands.append(given)
            return f"x{len(operands) - 1}"
        if isinstance(given, (list, tuple)):
            return f"[{', '.join(self.spelled(item, operands) for item in given)}]"
        return f"float('{given}')" if isinstance(given, float) and not math.isfinite(given) else repr(given)


@contextlib.contextmanager
def switched(options: dict[str, str]) -> Iterator[None]:
    """Sets PyTorch's switches within a block. `isa` and `threads` are set by the environment."""
    known = "isa threads matmul deterministic onednn tf32 sdpa autocast freezing simdlen"
    require_known(options, known, "PyTorch's platforms")
    with contextlib.ExitStack() as stack:
        if "threads" in options:
            torch.set_num_threads(int(options["threads"]))
        if "matmul" in options:
            torch.set_float32_matmul_precision(options["matmul"])
        if "deterministic" in options:
            torch.use_deterministic_algorithms(options["deterministic"] == "on")
        if "onednn" in options:
            torch._C._set_mkldnn_enabled(options["onednn"] == "on")
        if "tf32" in options:
            torch.backends.mkldnn.fp32_precision = "tf32" if options["tf32"] == "on" else "ieee"
        if "sdpa" in options:
            kernels = {"math": "MATH", "flash": "FLASH_ATTENTION", "efficient": "EFFICIENT_ATTENTION"}
            backend = getattr(torch.nn.attention.SDPBackend, kernels[options["sdpa"]])
            stack.enter_context(torch.nn.attention.sdpa_kernel(backend))
        if "autocast" in options:
            stack.enter_context(torch.autocast("cpu", getattr(torch, options["autocast"])))
        yield
