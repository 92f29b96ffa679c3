"""Backends `onnxruntime/PROVIDER`: run ONNX models on one of ONNX Runtime's execution providers.

A provider that `shares` a graph leaves nodes to ONNX Runtime's CPU provider, and reports which. Of any other, a graph
with such a node is refused, with the node's operator: an option of ONNX Runtime refuses the session then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mindgap.graph import Graph
from mindgap.platforms import dtype_policy, host, onnxruntime
from mindgap.platforms.delegation import computed_before, delegation_of
from mindgap.platforms.host_runtime import HostRuntime, Option
from mindgap.platforms.messages import Reading
from mindgap.platforms.onnx.messages import aten_operator
from mindgap.platforms.onnx.stages import provider_stage
from mindgap.platforms.onnxruntime.session import LEFT_TO_CPU, LeftToCpu, OnnxRuntimeExecutable, runtime
from mindgap.platforms.protocol import (
    ACCURACY,
    EXECUTION,
    INFERENCE_ONLY,
    Array,
    Executable,
    Options,
    Unsupported,
)
from mindgap.platforms.script_runner import ScriptRunner, read_runner
from mindgap_runtimes.onnxruntime_providers.execution_provider import (
    CPU,
    NO_DELEGATE,
    ExecutionProvider,
    ProviderSettings,
    assigned,
    runtime_distribution,
)
from mindgap_runtimes.onnxruntime_providers.settings_check import require_settings

if TYPE_CHECKING:
    from mindgap.platforms.onnx.export import Exported

_OPT: Final = Option("opt", "ONNX Runtime's graph optimisations (default all)", ("all", "off"))


class ProviderPlatform:
    """Makes sessions with one set of options."""

    def __init__(self, settings: ProviderSettings, modules: Mapping[str, str]) -> None:
        """Raises `Fallback` where the provider is not registered, or a setting is not in force."""
        runtime().set_default_logger_severity(4)
        if settings.delegates:
            settings = replace(settings, provider=settings.provider.registered())
        provider = settings.provider
        self._settings, self._modules = settings, modules
        self._facts = {**provider.facts(), **provider.described_device()} if settings.delegates else dict[str, Any]()
        plugin = provider.plugin if settings.delegates else ""
        self._plugin = provider.plugin_versions() if plugin and plugin not in modules else dict[str, str]()
        #: What a float32 matrix product and a convolution are computed in.
        self._precision = require_settings(settings)

    def describe(self) -> Mapping[str, Any]:
        settings, provider = self._settings, self._settings.provider
        execution = provider.execution if settings.delegates else ""
        described = host.described(self._modules)
        return {
            **described,
            "versions": {**described["versions"], **self._plugin},
            **self._facts,
            **({EXECUTION: execution} if execution else {}),
            **({ACCURACY: provider.accuracy} if provider.accuracy and settings.delegates else {}),
            "providers": [provider.name, CPU] if settings.delegates else [CPU],
            "provider_options": settings.provider_options if settings.delegates else {},
            "graph_optimization": settings.opt,
            "precision_asked": settings.options.get("precision", "default"),
            "precision_in_force": self._precision,
            "threads": settings.threads,
            "execution_mode": "sequential",
            INFERENCE_ONLY: True,
            "exporter": "torch.onnx, operator set 20, onnxscript optimizer on",
            dtype_policy.KEY: dtype_policy.measured_dtypes(_TakenWhole(self)),
        }

    def load(self, graph: Graph, inputs: Sequence[Array]) -> OnnxRuntimeExecutable:
        """Makes a session of the graph's ONNX model. Raises `Unsupported`, `CompileFailure` or `Fallback`."""
        from mindgap.platforms.onnx.export_cache import shared_export

        if graph.grad:
            raise Unsupported("backward", "ONNX Runtime's inference sessions run no backward pass")
        exported = shared_export(graph, inputs, apart=True)
        try:
            session = self._settings.session(exported, alone=self._settings.alone)
        except LeftToCpu as error:
            raise self._refusal(exported) from error
        assignment = assigned(session, self._settings)
        if self._settings.alone and not assignment.ran and not self._settings.provider.plugin and exported.inputs:
            # ONNX Runtime records no nodes of providers that run them one by one. No other provider may run one.
            assignment = replace(assignment, ran=dict(Counter(exported.origin.values())))
        if self._settings.alone and not assignment.ran:
            raise computed_before("ONNX Runtime", assignment.delegate, "opt=off leaves more to the provider")
        return OnnxRuntimeExecutable(session, exported, graph, assignment)

    def _refusal(self, exported: Exported) -> Unsupported:
        """Names the operators that are left to the CPU provider, in a session that may leave them."""
        name = self._settings.provider.name
        try:
            session = self._settings.session(exported, alone=False)
            parts = session.get_provider_graph_assignment_info()
        except Unsupported as error:
            return error
        except Exception as error:  # the provider fails for what it takes
            why = f"{name} leaves nodes to the CPU provider, and takes none of the rest: {error}"
            return Unsupported("model", why, fallback="ran_elsewhere")
        left = [
            aten_operator(Reading("refusal", None, str(node.name), str(node.op_type)), exported.origin)
            for part in parts
            if part.ep_name == CPU
            for node in part.get_nodes()
        ]
        names = [*dict.fromkeys(left)]
        why = f"{name} leaves {', '.join(names)} to the CPU provider"
        return Unsupported(names[0], why, names[1:], "ran_elsewhere")


class _TakenWhole:
    """The platform for graphs that the provider takes whole: the CPU provider's dtypes say nothing of it."""

    def __init__(self, platform: ProviderPlatform) -> None:
        self._platform = platform

    def describe(self) -> Mapping[str, Any]:
        return self._platform.describe()

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Executable:
        """Raises `Unsupported` where the provider gives an operator back."""
        loaded = self._platform.load(graph, inputs)
        delegation = delegation_of(loaded.facts)
        if delegation is not None and delegation.gave_back:
            names = ", ".join(sorted(delegation.gave_back))
            raise Unsupported("model", f"{delegation.delegate} gave back {names}")
        return loaded


def provider_backend(
    provider: ExecutionProvider,
    recipe: Path | None = None,
    named: Callable[[Options], ExecutionProvider] | None = None,
    declared: tuple[Option, ...] = (),
) -> HostRuntime:
    """Makes the backend of a provider. It has the options `delegate` and `opt`, and those of the provider.

    named: the provider that the options `declared` name, in the place of `provider`. Raises `PlatformError`.
    """
    # A build of one's own may have the name of another package.
    owner = "onnxruntime" if provider.plugin else runtime_distribution() or provider.distribution
    modules = {"torch": "torch", "onnx": "onnx", "onnxscript": "onnxscript"}
    modules |= {"onnxruntime": owner, **({provider.plugin: provider.distribution} if provider.plugin else {})}
    packages = tuple(dict.fromkeys((owner if named else provider.distribution, "onnx", "onnxscript")))
    if provider.plugin:
        packages = (packages[0], owner, *packages[1:])
    delegate = Option(
        "delegate",
        f"{provider.name or 'the provider'} (default), or the CPU provider of the same package alone",
        (provider.mode, NO_DELEGATE),
    )

    own_run = Path(__file__).with_name(f"{provider.mode}_run.py")

    def chosen(options: Options) -> ProviderSettings:
        return ProviderSettings(provider if named is None else named(options), options)

    def variables(options: Options) -> Mapping[str, str]:
        return chosen(options).provider.variables(options)

    def script(options: Options) -> ScriptRunner:
        settings, plain = chosen(options), Path(str(onnxruntime.__file__)).with_name("run.py")
        if not settings.delegates:
            return read_runner(plain, packages, "run" if settings.opt == "all" else "run_unoptimised")
        edits = {"ORT_ENABLE_ALL": "ORT_DISABLE_ALL"} if "opt" in options else dict[str, str]()
        given, run_on = settings.provider_options, settings.provider
        if own_run.exists():
            return replace(read_runner(own_run, packages, properties=given, edits=edits), refusal=LEFT_TO_CPU)
        if run_on.script == "run_alone":
            edits['"CUDAExecutionProvider"'] = f'"{run_on.name}"'
        if run_on.script == "run_plugin":
            edits |= {'"PLUGIN"': f'"{run_on.plugin}"', '"NAME"': f'"{run_on.name or run_on.plugin}"'}
        runner = read_runner(plain, packages, run_on.script, properties=given, edits=edits)
        return replace(runner, refusal=LEFT_TO_CPU)

    def file_script(options: Options, file: str) -> ScriptRunner | None:
        settings = chosen(options)
        if not settings.delegates or "opt" in options:
            return None
        edits = {'"FILE"': repr(file)}
        runner = read_runner(own_run, packages, "run_file", properties=settings.provider_options, edits=edits)
        return replace(runner, refusal=LEFT_TO_CPU)

    return HostRuntime(
        modules,
        lambda options: ProviderPlatform(chosen(options), modules),
        (*declared, delegate, _OPT, *(each.option for each in provider.options)),
        variables=variables,
        missing=lambda: "" if named else provider.missing(ask_build=recipe is None),
        script=script,
        stage_at_fault=provider_stage,
        packages=packages,
        recipe=recipe,
        execution=provider.execution,
        front_end=lambda options: "torch.onnx",
        file_suffixes=(".onnx",) if own_run.exists() else (),
        file_script=file_script,
    )
