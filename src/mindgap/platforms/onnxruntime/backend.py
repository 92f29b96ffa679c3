"""Backend `onnxruntime/cpu`: runs ONNX models of PyTorch's exporter on ONNX Runtime's CPU execution provider."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from mindgap.graph import Graph
from mindgap.platforms import dtype_policy, host
from mindgap.platforms.delegation import Delegation
from mindgap.platforms.host_runtime import HostRuntime, Option, thread_count, threads
from mindgap.platforms.onnx.stages import onnxruntime_stage
from mindgap.platforms.onnxruntime.messages import TABLE
from mindgap.platforms.onnxruntime.session import OnnxRuntimeExecutable, new_session, runtime
from mindgap.platforms.protocol import (
    HALF_WEIGHT_COPIES,
    INFERENCE_ONLY,
    WIDENED_COPIES,
    Alternative,
    Array,
    Executable,
    Fallback,
    Options,
    Unsupported,
    require_names,
)
from mindgap.platforms.script_runner import ScriptRunner, read_runner

_PROVIDER: Final = "CPUExecutionProvider"
_MODULES: Final = {
    "torch": "torch",
    "onnx": "onnx",
    "onnxscript": "onnxscript",
    "onnxruntime": "onnxruntime",
}
_OPTIONS: Final = (
    Option(
        "export",
        "mindgap's fast way to the exporter's translations (default), or torch.onnx.export",
        ("direct", "official"),
    ),
    Option("opt", "ONNX Runtime's graph optimisations (default all)", ("all", "off")),
    threads("threads within an operator (default: ONNX Runtime takes one per core)"),
    Option(
        "activations",
        "default lets ONNX Runtime quantise what is multiplied by dequantised weights to 8 bits; float does not",
        ("default", "float"),
    ),
    Option("deterministic", "on asks ONNX Runtime for deterministic kernels where it has them", ("off", "on")),
    Option("without", "optimizers to leave out, by name, joined by +", (), r"\w+(\+\w+)*", "names joined by +"),
)
#: ONNX Runtime fuses DequantizeLinear and MatMul into MatMulNBits, whose accuracy level is 4 by default: operands of 8
#: bits. At 0 it computes in the operands' own dtype.
_LEVEL: Final = "session.qdq_matmulnbits_accuracy_level"
_PACKAGES: Final = ("onnxruntime", "onnx", "onnxscript")
_EXPORTERS: Final = {
    "direct": "torch.onnx, operator set 20, onnxscript optimizer on",
    "official": "torch.onnx.export(dynamo=True) on torch.export's program",
}


class OnnxRuntimePlatform:
    """Makes sessions with one set of options."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._without = options["without"].split("+") if "without" in options else []
        runtime().set_default_logger_severity(4)
        if self._without:
            from mindgap.platforms.onnxruntime.optimizers import optimizers

            require_names("without", self._without, optimizers(), f"ONNX Runtime {runtime().__version__}")

    def describe(self) -> Mapping[str, Any]:
        return {
            **host.described(_MODULES),
            "provider": _PROVIDER,
            "graph_optimization": self._options["opt"],
            "intra_op_threads": thread_count(self._options),
            "execution_mode": "sequential",
            "use_deterministic_compute": self._options["deterministic"] == "on",
            **({"disabled_optimizers": self._without} if self._without else {}),
            INFERENCE_ONLY: True,
            HALF_WEIGHT_COPIES: WIDENED_COPIES,
            "exporter": _EXPORTERS[self._options["export"]],
            # Both exports write the same operators, and this one is fast.
            dtype_policy.KEY: dtype_policy.measured_dtypes(OnnxRuntimePlatform({**self._options, "export": "direct"})),
        }

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Executable:
        from mindgap.platforms.onnx.export_cache import shared_export
        from mindgap.platforms.onnx.official_export import export_official

        if graph.grad:
            raise Unsupported("backward", "ONNX Runtime's inference sessions run no backward pass")
        direct = self._options["export"] == "direct"
        exported = shared_export(graph, inputs, apart=True) if direct else export_official(graph, inputs)
        session = new_session(
            exported, [_PROVIDER], self._options["opt"], thread_count(self._options), entries=_entries(self._options),
            deterministic=self._options["deterministic"] == "on", without=self._without,
        )  # fmt: skip
        return OnnxRuntimeExecutable(session, exported, graph, _assigned(session))


def _assigned(session: Any) -> Delegation:
    """Returns which nodes of the optimised graph the CPU provider runs. Raises `Fallback` if it does not run all."""
    if session.get_providers() != [_PROVIDER]:
        raise Fallback(f"ONNX Runtime runs on {session.get_providers()}, not on {_PROVIDER} alone")
    ran = Counter[str]()
    # Added in ONNX Runtime 1.24. Before it, the list of providers alone shows where nodes run.
    for part in getattr(session, "get_provider_graph_assignment_info", list[Any])():
        if part.ep_name != _PROVIDER:
            raise Fallback(f"ONNX Runtime gave {[n.op_type for n in part.get_nodes()]} to {part.ep_name}")
        ran.update(str(node.op_type) for node in part.get_nodes())
    return Delegation(_PROVIDER, dict(ran))


def _script(options: Options) -> ScriptRunner | None:
    """Both ways to export write the same operators, and the script exports as users do. The operands are small: a
    session takes one thread for them."""
    if options.get("threads", "1") != "1" or {"activations", "deterministic", "without"} & options.keys():
        return None
    file = Path(__file__).with_name("run.py")
    return read_runner(file, _PACKAGES, "run_unoptimised" if "opt" in options else "run")


def _file_script(options: Options, file: str) -> ScriptRunner | None:
    if options.keys() - {"activations", "without"} or len(options) > 1:
        return None
    edits = {'"FILE"': repr(file)}
    if "without" in options:
        edits = {'"FILE", options': f'"FILE", options, disabled_optimizers={options["without"].split("+")}', **edits}
    file_run = Path(__file__).with_name("run.py")
    function = "run_file_with_float_activations" if "activations" in options else "run_file"
    runner = read_runner(file_run, _PACKAGES, function, properties=_entries(options), edits=edits)
    return replace(runner, refusal=TABLE.refusals)


def _entries(options: Options) -> dict[str, str]:
    """Returns what the options set in a session's configuration."""
    return {_LEVEL: "0"} if options.get("activations") == "float" else {}


BACKEND: Final = HostRuntime(
    _MODULES,
    OnnxRuntimePlatform,
    _OPTIONS,
    script=_script,
    stage_at_fault=onnxruntime_stage,
    packages=_PACKAGES,
    front_end=lambda options: "torch.onnx",
    forkable=True,
    file_suffixes=(".onnx",),
    file_script=_file_script,
    alternatives=(Alternative("activations=float", "int8", f"a deployment sets {_LEVEL}=0"),),
)
