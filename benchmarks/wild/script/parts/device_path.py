"""Runs a model with PyTorch's eager mode on a device other than the CPU."""

# pyright: basic
# (torch is typed in parts only)

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import torch

from script.parts.tensors import copied, require_known


def on_device(device: str, module: str) -> Callable[..., list[torch.Tensor]]:
    """Returns the function that runs a model there. `module`: what makes the device known to torch, or empty."""

    def run(
        model: torch.nn.Module,
        arguments: Sequence[torch.Tensor],
        options: dict[str, str],
        stage: Callable[[str], None],
        invoke: Callable[..., list[torch.Tensor]],
    ) -> list[torch.Tensor]:
        require_known(options, "threads deterministic", "eager mode on another device")
        stage("import")
        if module:
            importlib.import_module(module)
        if "threads" in options:
            torch.set_num_threads(int(options["threads"]))
        if "deterministic" in options:
            torch.use_deterministic_algorithms(options["deterministic"] == "on")
        stage("run")
        moved: Any = model.to(device)
        return [output.cpu() for output in invoke(moved, [copied(argument).to(device) for argument in arguments])]

    return run
