"""Runs a model in PyTorch's own ways: eager mode, TorchScript, Inductor, and Inductor ahead of time."""

# pyright: basic, reportCallIssue=false, reportArgumentType=false
# (torch.jit.trace is typed wrongly; a program is a module with the user's in `program`)

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from mindgap.platforms.script_runner import Fresh


def run(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs of eager mode."""
    return model(*fresh())


def run_on_device(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs of eager mode on a device other than the CPU."""
    device = "cuda"
    found = model.to(device)(*(a.to(device) for a in fresh()))
    return [value.cpu() for value in (found if isinstance(found, (tuple, list)) else (found,))]


def run_traced(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs of TorchScript's executor."""
    traced = torch.jit.trace(model, fresh(), check_trace=False)
    for _ in range(3):  # TorchScript optimises after the first runs
        traced(*fresh())
    return traced(*fresh())


def run_compiled(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs of Inductor's code."""
    compiled = torch.compile(model, fullgraph=True, dynamic=False)
    return compiled(*fresh())


def run_program_compiled(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs of Inductor's code for a program, in which Dynamo may break the graph."""
    compiled = torch.compile(model.program)
    del model.program  # of a module that is compiled already, it is a function, which takes no module's place
    model.program = compiled
    return model(*fresh())


def run_ahead(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs of Inductor's code, built ahead of time."""
    package = torch._inductor.aoti_compile_and_package(torch.export.export(model, fresh()))
    return torch._inductor.aoti_load_package(package)(*fresh())


def run_file(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs of a package of Inductor's code."""
    return torch._inductor.aoti_load_package("FILE")(*fresh())
