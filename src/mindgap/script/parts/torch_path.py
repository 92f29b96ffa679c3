"""PyTorch's own ways to run a model on the CPU: eager, TorchScript, Inductor, AOTInductor."""

# pyright: basic
# (torch is typed in parts only)

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence

import torch

from mindgap.script.parts.tensors import copied


def run_eager(
    model: torch.nn.Module,
    arguments: Sequence[torch.Tensor],
    options: dict[str, str],
    stage: Callable[[str], None],
    invoke: Callable[..., list[torch.Tensor]],
) -> list[torch.Tensor]:
    """Operator by operator, under the options; what acts at import is in the environment already."""
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
    """torch.compile of the whole graph."""
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
    """torch.export, then a package compiled ahead of time."""
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
    """torch.jit.trace, run until the executor has optimised the program."""
    stage("compile")
    with switched(options), torch.no_grad():
        program = torch.jit.trace(model.eval(), tuple(copied(argument) for argument in arguments), check_trace=False)
        if options.get("freezing") == "1":
            program = torch.jit.freeze(program)
    stage("run")
    with switched(options):
        for _ in range(4):
            found = invoke(program, [copied(argument) for argument in arguments])
        return found


@contextlib.contextmanager
def switched(options: dict[str, str]) -> Iterator[None]:
    """PyTorch's switches for the options that have one; the environment serves `isa` and `threads`."""
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
