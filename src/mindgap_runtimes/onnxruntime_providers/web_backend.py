"""Backends `ortweb/wasm`, `ortweb/webgpu` and `ortweb/webgl`: run ONNX models on onnxruntime-web.

Each worker has one runner (`web_server`): a process of Node, or a page in Chromium. Nothing falls back: a session has
one provider, and ONNX Runtime makes none in which its CPU provider would run a node that WebGPU lacks.
"""

from __future__ import annotations

import importlib.util
import re
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mindgap.graph import Graph, dtype_name
from mindgap.platforms import dtype_policy, host
from mindgap.platforms.delegation import Delegation, computed_before
from mindgap.platforms.host_runtime import HostRuntime, Option, thread_count, threads
from mindgap.platforms.messages import Reading, loading_error, running_error
from mindgap.platforms.onnx.arrays import as_declared, as_real
from mindgap.platforms.onnx.messages import aten_operator
from mindgap.platforms.onnx.stages import onnxruntime_stage
from mindgap.platforms.onnxruntime import messages
from mindgap.platforms.protocol import (
    ACCURACY,
    EXECUTION,
    INFERENCE_ONLY,
    Array,
    CompileFailure,
    Executable,
    Fallback,
    Options,
    RunFailure,
    Unsupported,
)
from mindgap.platforms.script_runner import ScriptRunner, read_runner
from mindgap_runtimes.onnxruntime_providers.web_server import (
    CHROMIUM,
    REMEDY,
    SWIFTSHADER,
    RunnerEnded,
    RunnerError,
    WebRunner,
    parts,
    program_of,
)

if TYPE_CHECKING:
    from mindgap.platforms.onnx.export import Exported

_MODULES: Final = {
    "torch": "torch", "onnx": "onnx", "onnxscript": "onnxscript", "onnxruntime_web": "onnxruntime-web",
}  # fmt: skip
_PACKAGES: Final = ("onnxruntime-web", "onnx", "onnxscript")
#: What its tensors hold.
_DTYPES: Final = frozenset(
    "float32 float64 float16 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool".split()  # noqa: SIM905
)
_OPT: Final = Option("opt", "ONNX Runtime's graph optimisations (default all)", ("all", "off"))
_DEVICE: Final = Option(
    "device",
    "the browser's choice of a GPU (default), or Chromium's software driver, which computes on processors",
    ("default", "swiftshader"),
)
_SOFTWARE: Final = re.compile("swiftshader|llvmpipe|software", re.IGNORECASE)
_LEFT_TO_CPU: Final = "graph nodes that are assigned to the default CPU EP"
#: Lines of ONNX Runtime's log: an operator without a kernel, with its node; a provider; a node of it, behind it.
_NO_KERNEL: Final = re.compile(r"kernel not found in registries for Op type: (\w+) node name: (\S*)")
_PROVIDER: Final = re.compile(r"placed on \[(\w+)\]")
_NODE: Final = re.compile(r"\]\s+(\w+) \(([^)]*)\)$")
_NO_PROVIDER: Final = "no available backend found"
_LOST: Final = "the device is lost"


@dataclass(frozen=True, slots=True)
class WebProvider:
    """One execution provider of onnxruntime-web.

    name: onnxruntime-web's. module: the file that its users import for it. browser: it needs one; else it runs in Node.
    accuracy: the language that promises how accurate its functions are (`protocol.ACCURACY`).
    absent: why no browser that is known here has it; empty where one has.
    shares: its sessions may leave nodes to the CPU provider, which is forbidden here.
    """

    name: str
    module: str
    browser: bool = True
    accuracy: str = ""
    shares: bool = False
    absent: str = ""


_WASM: Final = WebProvider("wasm", "ort.node.min.mjs", browser=False)
_WEBGPU: Final = WebProvider("webgpu", "ort.webgpu.min.mjs", accuracy="WGSL", shares=True)
_WEBGL: Final = WebProvider("webgl", "ort.webgl.min.mjs")
_WEBNN: Final = WebProvider(
    "webnn",
    "ort.all.min.mjs",
    shares=True,
    absent="Chromium for Linux makes no context of WebNN: navigator.ml.createContext() of Debian's Chromium 156 says "
    "'WebNN is not supported on this platform' for cpu, gpu and npu",
)


def web_folder() -> Path | None:
    """The folder `dist` of the installed onnxruntime-web; None without one."""
    spec = importlib.util.find_spec("onnxruntime_web")
    places = [] if spec is None else [Path(each) for each in spec.submodule_search_locations or ()]
    folders = [each / "node_modules" / "onnxruntime-web" / "dist" for each in places]
    return next((each for each in folders if each.is_dir()), None)


class WebPlatform:
    """Makes sessions of one provider with one set of options."""

    def __init__(self, provider: WebProvider, options: Options) -> None:
        """Raises `Fallback` where there is no runtime, no Node, no browser, or no adapter in it."""
        self._provider, self._options = provider, options
        dist = web_folder()
        if dist is None:
            raise Fallback("onnxruntime-web is not installed in this environment")
        software = SWIFTSHADER if options.get("device") == "swiftshader" else ()
        self.runner = WebRunner(dist, provider.module, (*CHROMIUM, *software) if provider.browser else None)
        try:
            self._facts: dict[str, Any] = self.runner.ask("describe", {"adapter": provider.name})[0]["facts"]
        except (RunnerEnded, RunnerError) as error:
            raise Fallback(f"{provider.name} cannot be used: {error}") from error
        adapter = str(self._facts.get("adapter", ""))
        self._emulated = bool(_SOFTWARE.search(adapter))
        # WebGL's language promises little; a driver of Vulkan under it promises what SPIR-V does.
        self._accuracy = "SPIR-V" if provider.name == "webgl" and "Vulkan" in adapter else provider.accuracy
        if options.get("device") == "swiftshader" and "swiftshader" not in adapter.lower():
            raise Fallback(f"device=swiftshader: the browser uses {adapter}")

    def describe(self) -> Mapping[str, Any]:
        return {
            **host.described(_MODULES),
            **self._facts,
            **({EXECUTION: "emulated"} if self._emulated else {}),
            **({ACCURACY: self._accuracy} if self._accuracy else {}),
            "provider": self._provider.name,
            "module": self._provider.module,
            "graph_optimization": self._options.get("opt", "all"),
            "threads": thread_count(self._options),
            INFERENCE_ONLY: True,
            "exporter": "torch.onnx, operator set 20, onnxscript optimizer on",
            dtype_policy.KEY: dtype_policy.measured_dtypes(self),
        }

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Executable:
        """Makes a session of the graph's ONNX model. Raises `Unsupported`, `CompileFailure` or `Fallback`."""
        from mindgap.platforms.onnx.export_cache import shared_export

        if graph.grad:
            raise Unsupported("backward", "ONNX Runtime's inference sessions run no backward pass")
        exported = shared_export(graph, inputs)
        if self._provider.shares and not exported.inputs:
            raise computed_before("ONNX Runtime", self._provider.name)
        executable = WebExecutable(self, exported, graph)
        executable.load()
        return executable

    def session(self, exported: Exported, number: int, *, alone: bool = True) -> dict[str, Any]:
        """Makes the session `number`. `alone`: the CPU provider may take no node that the provider lacks; otherwise
        the answer has what ONNX Runtime printed. Raises `RunnerError` or `RunnerEnded`."""
        opt = "all" if self._options.get("opt", "all") == "all" else "disabled"
        options: dict[str, Any] = {"graphOptimizationLevel": opt, "logSeverityLevel": 4 if alone else 0}
        if alone and self._provider.shares:
            options["extra"] = {"session": {"disable_cpu_ep_fallback": "1"}}
        count = thread_count(self._options)
        request = {
            "session": number, "model": [0, len(exported.model)], "provider": self._provider.name, "options": options,
            "flags": {} if count is None else {"numThreads": count}, "listens": not alone,
        }  # fmt: skip
        return self.runner.ask("load", request, [exported.model])[0]

    def typed(self, error: Exception, exported: Exported, *, running: bool = False) -> Exception:
        """Converts an error of the runner to a refusal or failure by the table of messages."""
        text = str(error)
        if not isinstance(error, RunnerError):
            return RunFailure(text) if running else CompileFailure(text)
        if _NO_PROVIDER in text:
            return Fallback(text)
        if error.kind == "RuntimeError" or _LOST in text:
            # A trap in WebAssembly, or no device: nothing runs after that, so the runner is started again.
            self.runner.stop()
        if _LEFT_TO_CPU in text:
            return self._left(exported)
        reading = messages.read(text, messages.WEB_TABLE)
        op = aten_operator(reading, exported.origin)
        if running:
            return running_error(reading.kind, f"{error.kind}: {text}", op)
        return loading_error(reading.kind, text, op)

    def _left(self, exported: Exported) -> Unsupported:
        """Names the operators that are left to the CPU provider, by the log of a session that may leave them."""
        name = self._provider.name
        try:
            printed = self.session(exported, -1, alone=False).get("printed") or ()
        except RunnerError as error:
            printed = error.printed
        except RunnerEnded as error:
            why = f"{name} leaves nodes to the CPU provider, and takes none of the rest: {error}"
            return Unsupported("model", why, fallback="ran_elsewhere")
        self.runner.forget(-1)
        left = [
            aten_operator(Reading("refusal", None, node, operator), exported.origin)
            for operator, node in left_to_cpu(printed)
        ]
        names = [*dict.fromkeys(left)] or ["model"]
        why = f"{name} leaves {', '.join(names)} to the CPU provider"
        return Unsupported(names[0], why, names[1:], "ran_elsewhere")


def left_to_cpu(printed: Sequence[str]) -> list[tuple[str, str]]:
    """Reads from ONNX Runtime's log which nodes its CPU provider gets: operator and node. Where it gets all of them the
    log names those without a kernel of the other provider."""
    lacking, placed, provider = list[tuple[str, str]](), list[tuple[str, str]](), ""
    for line in (each for text in printed for each in text.splitlines()):
        if match := _NO_KERNEL.search(line):
            lacking.append((match[1], match[2]))
        elif match := _PROVIDER.search(line):
            provider = match[1]
        elif provider == "CPUExecutionProvider" and (match := _NODE.search(line)):
            placed.append((match[1], match[2]))
    return placed or lacking


class WebExecutable:
    """Runs one model. Its session is made again where the runner was started again."""

    _numbers: int = 0

    def __init__(self, platform: WebPlatform, exported: Exported, graph: Graph) -> None:
        WebExecutable._numbers += 1
        self._number, self._platform, self._exported = WebExecutable._numbers, platform, exported
        self._outputs = [graph.values[number] for number in graph.outputs]
        self._started = 0
        provider = platform._provider  # pyright: ignore[reportPrivateUsage] # of this module
        ran = Delegation(provider.name, dict(Counter(exported.origin.values())))
        self.facts = {**exported.facts, **ran.as_fact()}
        weakref.finalize(self, platform.runner.forget, self._number)

    def load(self) -> None:
        """Makes the session. Raises `Unsupported`, `CompileFailure` or `Fallback`."""
        try:
            number = self._platform.session(self._exported, self._number)
        except (RunnerError, RunnerEnded) as error:
            raise self._platform.typed(error, self._exported) from error
        self._started = self._platform.runner.starts
        if len(number["outputs"]) != len(self._outputs):
            raise CompileFailure(f"the model has {len(number['outputs'])} outputs, not {len(self._outputs)}")

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """Runs the session. Raises `Unsupported` for a dtype or a kernel that is not there, `RunFailure` for other
        errors."""
        arrays = [as_real(inputs[number]) for number in self._exported.fed]
        names = [dtype_name(each.dtype) for each in arrays]
        for name in names:
            if name not in _DTYPES:
                raise Unsupported("model", f"onnxruntime-web has no tensors of {name}")
        if self._started != self._platform.runner.starts:
            self.load()
        feeds = [
            {"name": given, "dtype": dtype, "shape": array.shape, "part": part}
            for given, dtype, array, part in zip(
                self._exported.inputs, names, arrays, parts([each.nbytes for each in arrays]), strict=True
            )
        ]
        try:
            header, blocks = self._platform.runner.ask("run", {"session": self._number, "feeds": feeds}, arrays)
        except (RunnerError, RunnerEnded) as error:
            raise self._platform.typed(error, self._exported, running=True) from error
        results = [
            np.frombuffer(bytearray(block), dtype=header_output["dtype"]).reshape(header_output["shape"])
            for header_output, block in zip(header["outputs"], blocks, strict=True)
        ]
        return [
            array if spec is None else as_declared(array, spec)
            for array, spec in zip(results, self._outputs, strict=True)
        ]


def _backend(provider: WebProvider, declared: Sequence[Option]) -> HostRuntime:
    program = "chromium" if provider.browser else "node"

    def missing() -> str:
        if provider.absent:
            return provider.absent
        if web_folder() is None or program_of(program) is not None:
            return ""
        return f"{program} is not on this machine: {REMEDY[program]}"

    def script(options: Options) -> ScriptRunner | None:
        if options.get("threads", "1") != "1":
            return None
        settings = {"graphOptimizationLevel": "disabled"} if "opt" in options else dict[str, str]()
        if not provider.browser:
            return read_runner(Path(__file__).with_name("web_run.py"), _PACKAGES, properties=settings)
        edits = {"ort.PROVIDER": provider.module.removesuffix(".min.mjs"), "'PROVIDER'": f"'{provider.name}'"}
        if "device" in options:
            edits["SOFTWARE = ()"] = f"SOFTWARE = {SWIFTSHADER}"
        return read_runner(Path(__file__).with_name("web_page_run.py"), _PACKAGES, properties=settings, edits=edits)

    return HostRuntime(
        _MODULES,
        lambda options: WebPlatform(provider, options),
        declared,
        missing=missing,
        script=script,
        stage_at_fault=onnxruntime_stage,
        packages=_PACKAGES,
        recipe=Path(__file__).with_name("ortweb.toml"),
        front_end=lambda options: "torch.onnx",
    )


WASM: Final = _backend(_WASM, (_OPT, threads("threads of WebAssembly (default: onnxruntime-web's choice, at most 4)")))
WEBGPU: Final = _backend(_WEBGPU, (_DEVICE, _OPT))
WEBGL: Final = _backend(_WEBGL, (_DEVICE, _OPT))
WEBNN: Final = _backend(_WEBNN, (_OPT,))
