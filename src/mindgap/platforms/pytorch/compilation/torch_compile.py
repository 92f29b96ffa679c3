"""Compiles a whole graph with `torch.compile`. A graph that is split or not compiled is a `Fallback`."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Generator
from typing import Any, Final

import torch
import torch.fx

from mindgap.aten.torch_private.inductor import counters, dynamo_config, reset
from mindgap.platforms.protocol import Fallback
from mindgap.platforms.pytorch.compilation.compiled import Program

#: Programs that may still be called. While there is one, what Dynamo knows is not thrown away.
_alive: weakref.WeakSet[torch.fx.GraphModule] = weakref.WeakSet()
_MOST_ALIVE: Final = 256


def compile_graph(
    module: torch.fx.GraphModule,
    backend: Any,
    run: Callable[[Program], Any],
    configured: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
) -> Program:
    """Compiles the module as one graph by running it once. Raises the errors of Dynamo and the backend.

    `configured`: the backend's own settings, to be entered around every run. Raises `Fallback` where the
    run did not go through the compiler (a switch in the environment, a frame that Dynamo skipped, a break).
    """
    if not _alive or len(_alive) > _MOST_ALIVE:
        reset()
    _alive.add(module)
    graphs, breaks = counters["stats"]["unique_graphs"], sum(counters["graph_break"].values())
    # The method and not the module: GraphModules share one `__call__`, and its cache of compiled code is bounded.
    library: Any = torch  # the overloads of `compile` are not fully typed
    program: Program = library.compile(module.forward, fullgraph=True, dynamic=False, backend=backend)
    calls = any(node.op == "call_function" for node in module.graph.nodes)

    def governed(*arguments: torch.Tensor) -> Any:
        # A later call compiles again if Dynamo was reset in between: under the same settings, then.
        with _whole_graphs(), configured():
            return program(*arguments)

    run(governed)
    if calls and counters["stats"]["unique_graphs"] == graphs:
        raise Fallback("torch.compile ran the graph without compiling it")
    if sum(counters["graph_break"].values()) > breaks:
        raise Fallback(f"torch.compile broke the graph: {next(reversed(counters['graph_break']))}")
    return governed


@contextlib.contextmanager
def _whole_graphs() -> Generator[None]:
    settings: dict[str, Any] = {
        "capture_dynamic_output_shape_ops": True,
        "capture_scalar_outputs": True,
        "suppress_errors": False,
    }
    with dynamo_config.patch(settings):
        yield
