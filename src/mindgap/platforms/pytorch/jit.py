"""Backend `cpu/jit`: traces to TorchScript, and runs the profiling executor after it has optimised."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mindgap.graph import Graph
from mindgap.platforms import dtype_policy
from mindgap.platforms.protocol import (
    WEIGHT_COPIES,
    Array,
    Executable,
    Fallback,
    Options,
    Platform,
)
from mindgap.platforms.pytorch.backend import TorchBackend, TorchPlatform
from mindgap.platforms.pytorch.device import options as known
from mindgap.platforms.pytorch.device.devices import DEVICES
from mindgap.platforms.pytorch.script import runner_on_cpu
from mindgap.platforms.pytorch.stages import jit_stage
from mindgap.platforms.script_runner import ScriptRunner

if TYPE_CHECKING:
    import torch
    import torch.fx

    from mindgap.platforms.pytorch.compilation.compiled import Program

_OPTIONS: Final = ("isa", "threads", "onednn", "matmul", "deterministic", "tf32", "sdpa", "freezing", "opt")
#: The executor records shapes in its first run and rewrites the graph before its second; a backward pass starts that
#: round when the forward pass is through with it.
_FEWEST_RUNS: Final = 2
_MOST_RUNS: Final = 6


@dataclass(frozen=True, slots=True)
class JitBackend(TorchBackend):
    """Makes TorchScript platforms."""

    @property
    def names(self) -> tuple[str, ...]:
        return _OPTIONS

    def script_runner(self, options: Options) -> ScriptRunner | None:
        return runner_on_cpu("run_traced", options)

    def open(self, options: Options) -> Platform:
        """Opens the platform. Raises `Fallback` if an option has no effect."""
        from mindgap.aten.torch_private.switches import (
            optimise_torchscript,
            torchscript_fuses_on_cpu,
            use_profiling_executor,
        )
        from mindgap.platforms.pytorch.device import settings

        known.checked(options, _OPTIONS)
        settings.check_tier(options)
        use_profiling_executor()
        optimise_torchscript(options.get("opt") != "off")
        description = settings.establish(options, DEVICES["cpu"])
        description["fuses_on_cpu"] = torchscript_fuses_on_cpu()
        return _Jit(self.device, dict(options), description)


class _Jit(TorchPlatform):
    def describe(self) -> Mapping[str, Any]:
        return {**self.description, WEIGHT_COPIES: 0, dtype_policy.KEY: dtype_policy.measured_dtypes(self)}

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Executable:
        optimised = self.options.get("opt") != "off"
        return self.compiled(
            graph, inputs, lambda module, sample, run: _trace(module, sample, run, self.freezing, optimised)
        )


def _trace(
    module: torch.fx.GraphModule,
    sample: Sequence[torch.Tensor],
    run: Callable[[Program], Any],
    freezing: bool,
    optimised: bool,
) -> Program:
    """Traces the module. Raises `Fallback` if the executor was to optimise it, and never left its first plan."""
    import torch

    from mindgap.platforms.pytorch.compilation.torchscript_calls import without_boolean_lists

    jit: Any = torch.jit  # untyped in PyTorch

    with torch.no_grad():
        program: Any = jit.trace(without_boolean_lists(module).eval(), tuple(sample), check_trace=False)
        if freezing:
            program = jit.freeze(program)
    if not optimised:
        run(program)
        return program
    for number in range(1, _MOST_RUNS + 1):
        run(program)
        if number >= _FEWEST_RUNS and "prim::profile" not in str(jit.last_executed_optimized_graph()):
            return program
    raise Fallback("TorchScript still ran its profiling plan after its warm-up")


CPU: Final = JitBackend(DEVICES["cpu"], jit_stage)
