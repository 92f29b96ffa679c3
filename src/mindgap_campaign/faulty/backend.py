"""The backend of `faulty/eager`: runs graphs in PyTorch's eager mode with injected faults. See docs/verdicts.md."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mindgap.graph import Graph
from mindgap.platforms.protocol import (
    Array,
    Availability,
    Options,
    Platform,
    PlatformError,
    Unsupported,
    ValueDigest,
)
from mindgap.platforms.pytorch.device import availability as presence, options as known
from mindgap.platforms.pytorch.device.devices import CPU
from mindgap_campaign.faulty.schema import Faults, read_faults

if TYPE_CHECKING:
    import torch

    from mindgap_campaign.faulty.injection import InjectionSite

_OPTIONS: Final = {"faults": "FILE.toml: the faults to inject (docs/verdicts.md); without it there are none"}
#: One thread: a fault file means the same on every machine.
_THREADS: Final = {"threads": "1"}


@dataclass(frozen=True, slots=True)
class FaultyBackend:
    """Makes the platform `faulty/eager`."""

    @property
    def options(self) -> Mapping[str, str]:
        return _OPTIONS

    def probe(self) -> Availability:
        return presence.torch_present(CPU)

    def environment(self, options: Options) -> Mapping[str, str]:
        """Returns the device's variables. Reads the fault file, to report a bad one before a worker starts."""
        _read(options)
        return known.variables(_THREADS, CPU)

    def open(self, options: Options) -> Platform:
        from mindgap.platforms.pytorch.device import settings

        faults, sha256 = _read(options)
        described = settings.establish(_THREADS, CPU)
        injected = {"faults_sha256": sha256, "faults": faults.model_dump(mode="json")["fault"]}
        return _Faulty(faults, {**described, **injected})


def _read(options: Options) -> tuple[Faults, str]:
    for key in options:
        if key not in _OPTIONS:
            raise PlatformError(f"no option {key!r}; there is faults")
    return read_faults(options["faults"]) if "faults" in options else (Faults(), "")


@dataclass(frozen=True, slots=True)
class _Faulty:
    faults: Faults
    description: Mapping[str, Any]

    def describe(self) -> Mapping[str, Any]:
        return self.description

    def load(self, graph: Graph, inputs: Sequence[Array]) -> FaultyExecutable:
        """Loads a graph. Raises `Unsupported` and `CompileFailure` as faults demand, and for a backward pass."""
        from mindgap.graph.codec import digest
        from mindgap_campaign.faulty.injection import injection_sites

        if graph.grad:
            raise Unsupported("backward", "faults are injected into forward graphs only")
        # The digest costs more than a small run: only a condition on it asks for it.
        name = digest(graph) if any(f.when.graph for f in self.faults.fault) else ""
        return FaultyExecutable(graph, injection_sites(self.faults, graph, name))


class FaultyExecutable:
    """Executable and traceable: corruption shows in the value of the faulty node, and downstream."""

    def __init__(self, graph: Graph, sites: list[list[InjectionSite]]) -> None:
        from mindgap.aten.tape import Tape
        from mindgap.platforms.pytorch.execution.input_binding import InputBinder
        from mindgap_campaign.faulty.injection import FaultInjector

        self._feeds = InputBinder(graph.inputs, "cpu")
        self._tape = Tape(graph)
        self._injector = FaultInjector(graph, sites)

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """Returns outputs as arrays. Raises PyTorch's errors, and those of injected faults."""
        from mindgap.aten.tensors import to_numpy

        return [self._given(to_numpy(t), t) for t in self._run(inputs)]

    def trace(self, inputs: Sequence[Array], numbers: Collection[int] | None = None) -> list[Array | None]:
        """Returns output slots of nodes as they were when the node returned: `numbers`, or all."""
        from mindgap.aten.tensors import to_numpy

        seen: list[Array | None] = []

        def record(index: int, results: list[torch.Tensor | None]) -> None:
            for result in results:
                wanted = numbers is None or len(inputs) + len(seen) in numbers
                # Copied at once: a later in-place node would change it.
                seen.append(to_numpy(result.clone()) if result is not None and wanted else None)

        self._run(inputs, record)
        return seen

    def digest_values(self, inputs: Sequence[Array]) -> tuple[list[Array], list[ValueDigest]]:
        """Returns outputs, and the digest of every output slot of every node as it was when the node returned."""
        from mindgap.aten.tensors import to_numpy
        from mindgap.graph.compare.digest import digest_bytes

        digests: list[ValueDigest] = []

        def record(index: int, results: list[torch.Tensor | None]) -> None:
            digests.extend(None if r is None else digest_bytes(to_numpy(r)) for r in results)

        return [self._given(to_numpy(t), t) for t in self._run(inputs, record)], digests

    def _run(self, inputs: Sequence[Array], record: Any = None) -> list[torch.Tensor]:
        import torch

        self._injector.begin()
        with torch.no_grad():
            return self._tape.run(self._feeds(inputs), on_node=record, call=self._injector.call)

    def _given(self, array: Array, tensor: torch.Tensor) -> Array:
        return array.copy() if self._feeds.owns(tensor) else array


BACKEND: Final = FaultyBackend()
