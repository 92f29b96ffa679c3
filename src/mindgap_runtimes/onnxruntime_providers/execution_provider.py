"""What mindgap knows of one execution provider of ONNX Runtime, and which nodes of a session it took."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import importlib.util
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import xxhash

from mindgap.platforms.delegation import Delegation
from mindgap.platforms.environments.environment import installed
from mindgap.platforms.host import device_files
from mindgap.platforms.host_runtime import Option
from mindgap.platforms.messages import Reading
from mindgap.platforms.onnx.messages import aten_operator
from mindgap.platforms.onnxruntime.session import LeftToCpu, Provider, logged, new_session, runtime
from mindgap.platforms.protocol import CompileFailure, Fallback, Options, Unsupported

if TYPE_CHECKING:
    from mindgap.platforms.onnx.export import Exported

CPU: Final = "CPUExecutionProvider"
#: Value of the option `delegate`: the CPU provider of the same package alone.
NO_DELEGATE: Final = "none"


def _no_variables(options: Options) -> Mapping[str, str]:
    return {}


def _nothing() -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True, slots=True)
class ProviderOption:
    """An option of the platform that becomes options of the provider.

    key: the provider's option that gets the value as it is.
    entries: value -> the provider's options; a value without an entry leaves the provider as its users find it.
    dtype: value -> the dtype in which products of float32 then have to be computed.
    """

    option: Option
    key: str = ""
    entries: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    dtype: Mapping[str, str] = field(default_factory=dict[str, str])

    def given(self, value: str) -> Mapping[str, str]:
        """The provider's options for a value."""
        return {self.key: value} if self.key else self.entries.get(value, {})


@dataclass(frozen=True, slots=True)
class LogReason:
    """Where a provider reports only in its log which operator it lacks.

    message: an error without the reason. lacking: in the log of a session that fails so, an operator that the provider
    has no implementation of, as a group.
    """

    message: re.Pattern[str]
    lacking: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class ExecutionProvider:
    """One execution provider.

    name: ONNX Runtime's name of it. mode: the platform's, behind `onnxruntime/`.
    name of a plug-in's may be empty: `registered` finds it.
    distribution: the package that brings it. plugin: the module of a plug-in, empty for a provider within ONNX Runtime.
    built_with: how ONNX Runtime is built to have it, where no package does.
    plugin_options: the provider's option -> the function of that module that gives its value.
    script: the function of `run.py` that a script runs, where there is no `MODE_run.py`, whose function is `run`.
    fixed, options: the provider's options, and those of the platform.
    shares: ONNX Runtime's CPU provider runs what it does not take, as for its users. Otherwise such a graph is refused.
    systems: those that its package is made for, as `sys.platform` has them; empty for all.
    nodes: patterns of the device files of its hardware; empty where it needs none.
    hardware: what it runs on, for the reason why it is not available.
    execution: `simulated` where its package has no hardware at all to run on; empty for native execution.
    accuracy: the language that promises how accurate its functions are (`protocol.ACCURACY`); empty for none.
    variables: the environment variables of its worker, from the platform's options.
    facts: more of its description. It is called before the first session.
    measures: it has to take the matrix product and the convolution that show its precision.
    log_reason: of a provider whose errors do not name what it took and lacks; None for others.
    """

    name: str
    mode: str
    distribution: str
    hardware: str
    script: str = "run_alone"
    plugin: str = ""
    built_with: str = ""
    plugin_options: Mapping[str, str] = field(default_factory=dict[str, str])
    fixed: Mapping[str, str] = field(default_factory=dict[str, str])
    options: tuple[ProviderOption, ...] = ()
    shares: bool = False
    systems: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    execution: str = ""
    accuracy: str = ""
    variables: Callable[[Options], Mapping[str, str]] = _no_variables
    facts: Callable[[], Mapping[str, Any]] = _nothing
    measures: bool = True
    log_reason: LogReason | None = None

    def missing(self, *, ask_build: bool = True) -> str:
        """Why it cannot run here, empty where it can.

        ask_build: where its package is not installed, the answer is ONNX Runtime's, which may be built with it.
        """
        if self.systems and sys.platform not in self.systems:
            return f"{self.name} runs on {self.hardware}, on {' or '.join(self.systems)} only"
        if not self.plugin and importlib.util.find_spec("onnxruntime") is None:
            return ""
        packaged = not self.built_with and bool(installed([self.distribution]))
        if not packaged and (self.plugin or not ask_build or self.name not in built_in()):
            where = "beside it" if self.plugin else "in its place"
            remedy = (
                f"no package has it, ONNX Runtime is built with {self.built_with}"
                if self.built_with
                else f"{self.distribution} has it, {where}"
            )
            return f"the installed onnxruntime has no {self.name} ({remedy})"
        if self.nodes and not device_files(self.nodes):
            return f"{self.name} runs on {self.hardware}: this machine has no {' or '.join(self.nodes)}"
        return ""

    def module_options(self) -> dict[str, str]:
        """The options that the plug-in's module gives. Imports it."""
        return {key: str(getattr(self._module(), name)()) for key, name in self.plugin_options.items()}

    def registered(self) -> ExecutionProvider:
        """This provider, named: of a plug-in without a name, by the first device that it brings.

        Raises `Fallback` for a plug-in that is not installed, or brings no device.
        """
        if self.name or not self.plugin:
            return self
        before = {each.ep_name for each in runtime().get_ep_devices()}
        self._register()
        names = [each.ep_name for each in runtime().get_ep_devices() if each.ep_name not in before]
        if not names:
            raise Fallback(f"the plug-in {self.plugin} finds no device that it can run on")
        return replace(self, name=names[0])

    def described_device(self) -> dict[str, Any]:
        """The plug-in's description of the device that it runs on; nothing for a provider within ONNX Runtime."""
        info = self.device()
        if info is None:
            return {}
        facts = {key: value for key, value in dict(info.ep_metadata).items() if key != "library_path"}
        kind = str(info.device.type).rpartition(".")[2]
        return {"provider_device": {"type": kind, "vendor": info.device.vendor, "maker": info.ep_vendor, **facts}}

    def plugin_versions(self) -> dict[str, str]:
        """The distributions that bring a plug-in's module, with their versions; nothing for a provider within ONNX
        Runtime. A module that no distribution brings has a digest of its library instead."""
        if not self.plugin:
            return {}
        owners = importlib.metadata.packages_distributions().get(self.plugin.partition(".")[0], [])
        versions = installed(dict.fromkeys(owners))
        return versions or {self.plugin: xxhash.xxh3_64_hexdigest(Path(str(self._library())).read_bytes())}

    def device(self) -> Any:
        """The first device of a plug-in, which is registered with ONNX Runtime; None for a provider within it.

        Raises `Fallback` for a plug-in without a device.
        """
        if not self.plugin:
            return None
        devices = self._devices()
        if not devices:
            self._register()
            devices = self._devices()
        if not devices:
            raise Fallback(f"{self.distribution} finds no device for {self.name}")
        return devices[0]

    def _register(self) -> None:
        library = self._library()
        # A plug-in logs later what ONNX Runtime logs by default at this moment, at most.
        with logged() if self.log_reason else contextlib.nullcontext():
            runtime().register_execution_provider_library(self.name or self.plugin, library)

    def _library(self) -> Any:
        module = self._module()
        library = getattr(module, "get_library_path", None) or getattr(module, "library_path", None)
        if library is None:
            raise Fallback(f"{self.plugin} is no plug-in of ONNX Runtime: it has no get_library_path()")
        return library()

    def _devices(self) -> list[Any]:
        return [each for each in runtime().get_ep_devices() if each.ep_name == self.name]

    def _module(self) -> Any:
        try:
            return importlib.import_module(self.plugin)
        except ImportError as error:
            raise Fallback(f"the plug-in {self.plugin} is not installed in this environment: {error}") from error


@cache
def runtime_distribution() -> str:
    """The distribution that the installed module `onnxruntime` is of, by its files; empty without one."""
    spec = importlib.util.find_spec("onnxruntime")
    if spec is None or spec.origin is None:
        return ""
    packages = Path(spec.origin).parents[1]
    records = [*packages.glob("onnxruntime*.dist-info/RECORD"), *packages.glob("ort*.dist-info/RECORD")]
    owner = next((each for each in records if "\nonnxruntime/__init__.py," in f"\n{each.read_text()}"), None)
    return "" if owner is None else importlib.metadata.PathDistribution(owner.parent).name


@cache
def built_in() -> frozenset[str]:
    """The providers that the installed ONNX Runtime is built with; none where it cannot be imported.

    Another process imports it: a probe imports no runtime.
    """
    code = "import onnxruntime; print(*onnxruntime.get_available_providers())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return frozenset(done.stdout.split()) if done.returncode == 0 else frozenset()


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """A provider with the options of the platform, and their defaults."""

    provider: ExecutionProvider
    options: Options = field(default_factory=dict[str, str])

    @property
    def delegates(self) -> bool:
        """Whether the provider is in the session at all."""
        return self.options.get("delegate") != NO_DELEGATE

    @property
    def opt(self) -> str:
        """ONNX Runtime's graph optimisations: `all` or `off`."""
        return self.options.get("opt", "all")

    @property
    def threads(self) -> int | None:
        """None leaves the number to ONNX Runtime and the provider."""
        return int(self.options["threads"]) if "threads" in self.options else None

    @property
    def alone(self) -> bool:
        """Whether the CPU provider may take no node."""
        return self.delegates and not self.provider.shares

    @property
    def provider_options(self) -> dict[str, str]:
        """The provider's options, without those of a plug-in's module."""
        values = dict(self.provider.fixed)
        for each in self.provider.options:
            if each.option.name in self.options:
                values |= each.given(self.options[each.option.name])
        return values

    @property
    def providers(self) -> list[Provider]:
        """The providers of a session, in the order in which they are offered nodes."""
        given = {**self.provider.module_options(), **self.provider_options} if self.delegates else {}
        return [(self.provider.name, given), CPU] if self.delegates else [CPU]

    def session(self, exported: Exported, *, alone: bool) -> Any:
        """Makes a session. `alone`: the CPU provider may take no node.

        Raises `Unsupported`, `CompileFailure`, `Fallback` or, with `alone`, `LeftToCpu`.
        """
        plugin = self.provider.device() if self.delegates else None
        # ONNX Runtime adds the CPU provider by itself, and forbids to name and to forbid it.
        providers = self.providers[:1] if alone else self.providers
        make = partial(new_session, exported, providers, self.opt, self.threads, alone=alone, plugin=plugin)
        try:
            return make()
        except CompileFailure as error:
            raise self._explained(error, make, exported) from error

    def _explained(self, error: CompileFailure, make: Callable[[], Any], exported: Exported) -> CompileFailure:
        """The failure of a provider that reports in its log alone which operator it took and has no implementation of:
        the session is made again, with the log. It is no refusal: other providers could run what it does not take."""
        reason = self.provider.log_reason
        if reason is None or not reason.message.search(str(error)):
            return error
        with logged() as log, contextlib.suppress(Unsupported, CompileFailure, LeftToCpu):
            make()
        names = [*dict.fromkeys(reason.lacking.findall(log.text))]
        if not names:
            return error
        op = aten_operator(Reading("failure", None, "", names[0]), exported.origin)
        return CompileFailure(f"{self.provider.name} took {', '.join(names)} without an implementation: {error}", op)

    @property
    def dtype(self) -> str:
        """The dtype in which products of float32 have to be computed, empty for any."""
        for each in self.provider.options:
            found = each.dtype.get(self.options.get(each.option.name, ""))
            if found:
                return found
        return ""


def assigned(session: Any, settings: ProviderSettings) -> Delegation:
    """Returns which nodes the provider took, and which it left to the CPU provider.

    Raises `Fallback` for a session without the provider: ONNX Runtime leaves out one that it cannot make, and only logs
    it.
    """
    name = settings.provider.name
    wanted = [name, CPU] if settings.delegates else [CPU]
    if session.get_providers() != wanted:
        raise Fallback(f"ONNX Runtime runs on {session.get_providers()}, not on {wanted}")
    delegate, otherwise = (name, CPU) if settings.delegates else (CPU, "")
    ran, rest, parts = Counter[str](), Counter[str](), 0
    for part in session.get_provider_graph_assignment_info():
        names = [str(node.op_type) for node in part.get_nodes()]
        if part.ep_name not in wanted:
            raise Fallback(f"ONNX Runtime gave {names} to {part.ep_name}")
        (ran if part.ep_name == delegate else rest).update(names)
        parts += part.ep_name == name
    return Delegation(delegate, dict(ran), dict(rest), otherwise, parts)
