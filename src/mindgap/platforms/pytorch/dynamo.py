"""Backends `npu/compile` and `hpu/compile`: `torch.compile` with the accelerator maker's compiler. XLA has one too."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mindgap.graph import Graph
from mindgap.platforms.protocol import (
    PYTORCH_DECOMPOSITIONS,
    Array,
    Executable,
    Fallback,
    Options,
    Platform,
)
from mindgap.platforms.pytorch.backend import TorchBackend, TorchPlatform
from mindgap.platforms.pytorch.device import options as known
from mindgap.platforms.pytorch.device.devices import DEVICES


@dataclass(frozen=True, slots=True)
class DynamoBackend(TorchBackend):
    """Makes platforms of one device, with a named backend of `torch.compile`."""

    compiler: str = ""

    def open(self, options: Options) -> Platform:
        """Opens the platform. Raises `Fallback` if an option has no effect, or the compiler is missing."""
        from mindgap.platforms.pytorch.device import settings

        known.checked(options, self.names)
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
class _Compiling(TorchPlatform):
    compiler: Any

    def describe(self) -> Mapping[str, Any]:
        return {**self.description, PYTORCH_DECOMPOSITIONS: True}

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Executable:
        from mindgap.platforms.pytorch.compilation.torch_compile import compile_graph

        return self.compiled(graph, inputs, lambda module, _, run: compile_graph(module, self.compiler, run))


NPU: Final = DynamoBackend(DEVICES["npu"], compiler="torchair")
HPU: Final = DynamoBackend(DEVICES["hpu"], compiler="hpu_backend")
