"""Backend `onnxruntime/openvino`: runs ONNX models on ONNX Runtime's OpenVINO execution provider.

Nodes that the provider does not take run on ONNX Runtime's CPU execution provider.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from mindgap.graph import Graph
from mindgap.platforms import dtype_policy, host
from mindgap.platforms.delegation import delegation_of
from mindgap.platforms.host_runtime import HostRuntime, Option, thread_count, threads
from mindgap.platforms.onnx.stages import openvino_provider_stage
from mindgap.platforms.onnxruntime.provider_settings import ProviderSettings, assigned
from mindgap.platforms.onnxruntime.session import OnnxRuntimeExecutable, new_session, runtime
from mindgap.platforms.onnxruntime.settings_check import require_settings
from mindgap.platforms.protocol import (
    INFERENCE_ONLY,
    Array,
    Executable,
    Options,
    Unsupported,
)
from mindgap.platforms.script_runner import ScriptRunner, read_runner

#: Import name of what the platform needs -> distribution.
_MODULES: Final = {
    "torch": "torch",
    "onnx": "onnx",
    "onnxscript": "onnxscript",
    "onnxruntime": "onnxruntime-openvino",
}
_OPTIONS: Final = (
    Option(
        "delegate",
        "the OpenVINO provider (default), or the CPU provider of the same package alone",
        ("openvino", "none"),
    ),
    Option("opt", "ONNX Runtime's graph optimisations (default all)", ("all", "off")),
    Option(
        "precision",
        "precision of float32 (default: the provider's choice, float32 on CPUs)",
        ("default", "f32", "bf16"),
    ),
    threads("threads of the provider and within an operator (default: one per core)"),
)
_PACKAGES: Final = ("onnxruntime-openvino", "onnx", "onnxscript")


def _missing() -> str:
    """Says so where the installed ONNX Runtime lacks the provider's library, without importing it."""
    package = package_folder()
    if package is None or list((package / "capi").glob("*onnxruntime_providers_openvino*")):
        return ""
    return "the installed onnxruntime has no OpenVINO provider (onnxruntime-openvino has it, and takes its place)"


def package_folder() -> Path | None:
    """The folder of the installed ONNX Runtime, of whatever distribution; None without one."""
    spec = importlib.util.find_spec("onnxruntime")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def bundled_openvino() -> str:
    """The version of the OpenVINO that the package brings, by its library's file name; `unknown` without one."""
    package = package_folder()
    names = [] if package is None else [path.name for path in (package / "capi").glob("libopenvino.so.*.*")]
    return max(names, key=len, default="libopenvino.so.unknown").removeprefix("libopenvino.so.")


class OpenVinoProviderPlatform:
    """Makes sessions with one set of options."""

    def __init__(self, settings: ProviderSettings) -> None:
        """Raises `Fallback` where the provider is not registered, or a setting is not in force."""
        runtime().set_default_logger_severity(4)
        self._settings = settings
        #: What a float32 matrix product and a convolution are computed in.
        self._precision = require_settings(settings)

    def describe(self) -> Mapping[str, Any]:
        return {
            **host.described(_MODULES),
            "bundled_openvino": bundled_openvino(),
            "providers": [each if isinstance(each, str) else each[0] for each in self._settings.providers],
            "provider_options": self._settings.provider_options if self._settings.delegate == "openvino" else {},
            "graph_optimization": self._settings.opt,
            "precision_asked": self._settings.precision,
            "precision_in_force": self._precision,
            "threads": self._settings.threads,
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
        session = new_session(exported, self._settings.providers, self._settings.opt, self._settings.threads)
        return OnnxRuntimeExecutable(session, exported, graph, assigned(session, self._settings))


class _TakenWhole:
    """The platform for graphs that the provider takes whole: the CPU provider's dtypes say nothing of it."""

    def __init__(self, platform: OpenVinoProviderPlatform) -> None:
        self._platform = platform

    def describe(self) -> Mapping[str, Any]:
        return self._platform.describe()

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Executable:
        """Raises `Unsupported` where the provider gives an operator back."""
        loaded = self._platform.load(graph, inputs)
        found = delegation_of(loaded.facts)
        if found is not None and found.gave_back:
            names = ", ".join(sorted(found.gave_back))
            raise Unsupported("model", f"{found.delegate} gave back {names}")
        return loaded


def _settings(options: Options) -> ProviderSettings:
    chosen = {name: options[name] for name in ("delegate", "opt", "precision") if name in options}
    return ProviderSettings(**chosen, threads=thread_count(options))


def _script(options: Options) -> ScriptRunner:
    edits = dict[str, str]()
    if "opt" in options:
        edits["ORT_ENABLE_ALL"] = "ORT_DISABLE_ALL"
    if "delegate" in options:
        edits['("OpenVINOExecutionProvider", PROPERTIES), '] = ""
    file, given = Path(__file__).with_name("run.py"), _settings(options).provider_options
    return read_runner(file, _PACKAGES, "run_openvino", properties=given, edits=edits)


BACKEND: Final = HostRuntime(
    _MODULES,
    lambda options: OpenVinoProviderPlatform(_settings(options)),
    _OPTIONS,
    missing=_missing,
    script=_script,
    stage_at_fault=openvino_provider_stage,
    packages=_PACKAGES,
    recipe=Path(__file__).with_name("onnxruntime-openvino.toml"),
    front_end=lambda options: "torch.onnx",
)
