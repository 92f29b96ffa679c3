"""Backends `npu/compile` and `hpu/compile`: `torch.compile` with the accelerator maker's compiler. XLA has one too."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mindgap.graph import Graph
from mindgap.platforms.protocol import (
    PYTORCH_DECOMPOSITIONS,
    Array,
    Availability,
    Executable,
    Fallback,
    Options,
    Platform,
)
from mindgap.platforms.pytorch.device import availability as presence, options as known
from mindgap.platforms.pytorch.device.devices import DEVICES, TorchDevice

if TYPE_CHECKING:
    import torch
    import torch.fx

    from mindgap.platforms.pytorch.compilation.compiled import Program


@dataclass(frozen=True, slots=True)
class DynamoBackend:
    """Makes platforms of one device, with a named backend of `torch.compile`. `recipe`: as in `protocol`."""

    device: TorchDevice
    compiler: str
    recipe: Path | None = None

    @property
    def options(self) -> Mapping[str, str]:
        return known.described(self.device.compiler_options)

    def probe(self) -> Availability:
        return presence.torch_present(self.device)

    def environment(self, options: Options) -> Mapping[str, str]:
        return known.variables(known.checked(options, self.device.compiler_options), self.device)

    @property
    def packages(self) -> tuple[str, ...]:
        return (self.device.distribution,) if self.device.distribution else ()

    def open(self, options: Options) -> Platform:
        """Opens the platform. Raises `Fallback` if an option has no effect, or the compiler is missing."""
        from mindgap.platforms.pytorch.device import settings

        known.checked(options, self.device.compiler_options)
        description = settings.establish(options, self.device)
        compiler = options.get("through", self.compiler)
        description["compiler"] = compiler
        return _Compiling(self.device, dict(options), description, _resolved(compiler))


def _resolved(compiler: str) -> Any:
    """Returns the backend for `torch.compile`. Raises `Fallback` if it would run the graph uncompiled."""
    if compiler == "torchair":
        try:
            torchair: Any = importlib.import_module("torchair")
            return torchair.get_npu_backend(compiler_config=torchair.CompilerConfig())
        except (ImportError, AttributeError) as error:
            # A torch_npu without it registers a backend all the same, which gives every graph back as it came.
            raise Fallback(f"this torch_npu was built without torchair: {error}") from error
    from mindgap.aten.torch_private.inductor import list_backends

    registered = list_backends()
    if compiler not in registered:
        raise Fallback(f"torch.compile knows no backend {compiler!r}; there are {', '.join(sorted(registered))}")
    return compiler


@dataclass(frozen=True, slots=True)
class _Compiling:
    device: TorchDevice
    options: Options
    description: Mapping[str, Any]
    compiler: Any

    def describe(self) -> Mapping[str, Any]:
        return {**self.description, PYTORCH_DECOMPOSITIONS: True}

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Executable:
        from mindgap.platforms.pytorch.compilation import compiled, torch_compile

        def compile_program(
            module: torch.fx.GraphModule, sample: Sequence[torch.Tensor], run: Callable[[Program], Any]
        ) -> Program:
            return torch_compile.compile_graph(module, self.compiler, run)

        return compiled.load(graph, self.device, self.options, inputs, compile_program, fold=False)


NPU: Final = DynamoBackend(DEVICES["npu"], "torchair")
HPU: Final = DynamoBackend(DEVICES["hpu"], "hpu_backend")
