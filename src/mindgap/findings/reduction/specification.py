"""Runs the candidates of a reduction in a worker, to learn the specs of their values.

Eager kernels can crash or hang on a candidate. In a worker that costs the candidate and a new worker, and not the
reduction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from mindgap.graph import Graph, GraphError, MindgapError, TensorSpec
from mindgap.platforms.host_runtime import HostRuntime
from mindgap.platforms.name import PlatformName
from mindgap.platforms.protocol import Array, Executable, Unsupported
from mindgap.run.outcome import Job, Outcome

#: The platform whose workers specify graphs: workers find it by this place.
SPECIFIER: Final = PlatformName("mindgap.findings.reduction.specification:BACKEND")
#: A candidate's values may take so many bytes each: one reduction makes no graph larger than it was.
MOST_BYTES: Final = 1 << 30
_DEADLINE_S: Final = 60.0


def specified_in_worker(draft: Graph, execute: Callable[[Job], Outcome]) -> Graph:
    """The draft with the specs that its values have in eager PyTorch. `execute`: runs the platform `SPECIFIER`.

    Raises `GraphError` where the draft does not run.
    """
    try:
        outcome = execute(Job(SPECIFIER, draft, repeat=1, deadline_s=_DEADLINE_S))
    except MindgapError as error:
        raise GraphError(str(error)) from None
    if not outcome.ran:
        raise GraphError(outcome.message or outcome.status)
    specs: list[list[Any]] = outcome.facts["specs"]
    nodes = (replace(node, outputs=tuple(map(_spec, each))) for node, each in zip(draft.nodes, specs, strict=True))
    return Graph(draft.inputs, tuple(nodes), draft.outputs)


def _spec(fields: list[Any] | None) -> TensorSpec | None:
    return None if fields is None else TensorSpec(fields[0], tuple(fields[1]), tuple(fields[2]))


class _Specified:
    """An executable that has run. `facts`: for each node, dtype, shape and strides of its results. Gives no values."""

    def __init__(self, graph: Graph) -> None:
        self._count = len(graph.outputs)
        self.facts = {
            "specs": [
                [None if spec is None else [spec.dtype, spec.shape, spec.stride] for spec in node.outputs]
                for node in graph.nodes
            ]
        }

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        return [np.zeros(0, np.float32)] * self._count


@dataclass(frozen=True, slots=True)
class _Specifier:
    def describe(self) -> Mapping[str, Any]:
        return {}

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Executable:
        """Runs the draft. Raises `Unsupported` where it does not run."""
        from mindgap.aten.specs import specified

        try:
            return _Specified(specified(graph, [array.copy() for array in inputs], MOST_BYTES))
        except GraphError as error:
            raise Unsupported("model", str(error)) from None


#: The backend of `SPECIFIER`.
BACKEND: Final = HostRuntime({}, lambda _: _Specifier())
