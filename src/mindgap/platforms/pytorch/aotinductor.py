"""Backend `cpu/aotinductor`: compiles with Inductor ahead of time, many graphs in one library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mindgap.graph import Graph
from mindgap.platforms.protocol import (
    PYTORCH_DECOMPOSITIONS,
    Array,
    Executable,
    Options,
    Platform,
    Unsupported,
)
from mindgap.platforms.pytorch.backend import InductorsBackend, TorchPlatform
from mindgap.platforms.pytorch.device import options as known
from mindgap.platforms.pytorch.device.devices import DEVICES
from mindgap.platforms.pytorch.script import runner_on_cpu
from mindgap.platforms.script_runner import ScriptRunner

if TYPE_CHECKING:
    from mindgap.platforms.pytorch.ahead_of_time.batch import Batch

#: What is put into a program at load would be a constant of it, and no two programs share those. `stage` stops before
#: anything is built.
_NOT_AHEAD: Final = ("freezing", "stage")


@dataclass(frozen=True, slots=True)
class AheadBackend(InductorsBackend):
    """Makes platforms of one device whose graphs are compiled before they run."""

    batch: int = 50

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name in self.device.compiler_options if name not in _NOT_AHEAD)

    @property
    def compiled_as(self) -> str:
        return "cpu/inductor"

    def script_runner(self, options: Options) -> ScriptRunner | None:
        return runner_on_cpu("run_ahead", options)

    @property
    def file_suffixes(self) -> tuple[str, ...]:
        return (".pt2",)

    def file_runner(self, options: Options, file: str) -> ScriptRunner | None:
        return runner_on_cpu("run_file", options, {'"FILE"': repr(file)})

    def open(self, options: Options) -> Platform:
        """Opens the platform. Raises `Fallback` if an option has no effect."""
        from mindgap.platforms.pytorch.compilation import inductor_settings
        from mindgap.platforms.pytorch.device import settings

        known.checked(options, self.names)
        description = settings.establish(options, self.device)
        # A separate cache next to that of `torch.compile`: what lies in it was built otherwise.
        description["inductor"] = inductor_settings.establish({**options, "ahead": "1"}, description)
        return _Ahead(self.device, dict(options), description)


class _Ahead(TorchPlatform):
    def describe(self) -> Mapping[str, Any]:
        return {**self.description, PYTORCH_DECOMPOSITIONS: True}

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Executable:
        [executable] = self.load_many([graph], [inputs])
        if isinstance(executable, Exception):
            raise executable
        return executable

    def load_many(self, graphs: Sequence[Graph], inputs: Sequence[Sequence[Array]]) -> list[Executable | Exception]:
        """Loads graphs from one library. Returns for each the executable, or the error that `load` would raise."""
        from mindgap.platforms.pytorch.ahead_of_time.batch import Batch

        batch = Batch(self.options)
        executables = [self._begun(graph, given, batch) for graph, given in zip(graphs, inputs, strict=True)]
        failures = batch.build()
        return [failures.get(number, one) for number, one in enumerate(executables)]

    def _begun(self, graph: Graph, inputs: Sequence[Array], batch: Batch) -> Executable | Exception:
        """Translates a graph, whose program the batch builds later. Returns that or the failure."""
        number = batch.begin(graph)
        try:
            if graph.grad:
                raise Unsupported("backward", "a program compiled ahead of time has no gradients")
            begun = self.compiled(graph, inputs, lambda module, sample, _: batch.translate(number, module, sample))
            return batch.loaded(number, begun)
        except Exception as error:
            return error


CPU: Final = AheadBackend(DEVICES["cpu"])
