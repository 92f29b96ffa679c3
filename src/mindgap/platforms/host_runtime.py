"""Makes a backend of what a runtime on the host's processors declares: its packages, its options, what opens it."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mindgap.graph import Graph
from mindgap.platforms import host
from mindgap.platforms.protocol import (
    Alternative,
    Array,
    Availability,
    Executable,
    Options,
    Platform,
    PlatformError,
)
from mindgap.platforms.script_runner import ScriptRunner
from mindgap.platforms.stages import Stage, VariantRuns


@contextlib.contextmanager
def own_directory() -> Generator[str]:
    """Makes a temporary directory the working directory of the process during a block, and removes it."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory(prefix="mindgap-simulator-") as folder:
        os.chdir(folder)
        try:
            yield folder
        finally:
            os.chdir(before)


@dataclass(frozen=True, slots=True)
class _InOwnDirectory:
    """A platform whose runtime works in a separate directory: simulators write models and logs where they run."""

    platform: Platform

    def describe(self) -> Mapping[str, Any]:
        with own_directory():
            return self.platform.describe()

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Executable:
        """Loads the graph. Raises what the platform raises."""
        with own_directory():
            return _RunsInOwnDirectory(self.platform.load(graph, inputs))


class _RunsInOwnDirectory:
    """An executable of such a platform. `facts`: those of the executable."""

    def __init__(self, executable: Executable) -> None:
        self._executable = executable
        self.facts: Any = getattr(executable, "facts", {})

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        with own_directory():
            return self._executable(inputs)


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a platform.

    about: what it does, for the help text.
    values: those that it takes, the default first; empty for one that takes what matches `pattern`.
    pattern: a regular expression. Such an option has no default.
    must: what a value that does not match must be.
    """

    name: str
    about: str
    values: tuple[str, ...] = ()
    pattern: str = ""
    must: str = ""

    @property
    def described(self) -> str:
        """Its values and what it does."""
        return ": ".join(filter(None, ["|".join(self.values), self.about]))

    def check(self, value: str) -> None:
        """Raises `PlatformError` for a value that it does not take."""
        if self.values and value not in self.values:
            raise PlatformError(f"option {self.name}={value}: must be one of {', '.join(self.values)}")
        if self.pattern and not re.fullmatch(self.pattern, value):
            raise PlatformError(f"option {self.name}={value}: must be {self.must}")


def threads(about: str) -> Option:
    """Returns the option `threads`, which `thread_count` reads."""
    return Option("threads", about, (), r"0*[1-9]\d*", "a number of threads, 1 or more")


def processor(must: str = "a processor's name") -> Option:
    """Returns the option `cpu` of a compiler that is LLVM."""
    about = "processor that LLVM compiles for: generic, host, haswell, znver4, … (default: generic)"
    return Option("cpu", about, (), r"[\w.-]+", must)


def thread_count(options: Options) -> int | None:
    """Returns the number of `threads=`, None if the runtime chooses."""
    return int(options["threads"]) if "threads" in options else None


@dataclass(frozen=True, eq=False)
class HostRuntime:
    """A backend of a runtime on the host's processors. Imports no framework before `open`.

    modules: import name -> distribution of what it needs.
    platform: makes the platform in a worker, from options with their defaults.
    declared: its options.
    variables: the environment variables of its worker, from options with their defaults. Raises `PlatformError` for
        values that do not go together.
    missing: why it cannot run though its modules can be imported; empty where it can, or they cannot.
    script: how a script runs it (`protocol.Scripted`), from options that are not at their defaults.
    file_suffixes: of the model files that it runs; `file_script`: how, from options that are not at their defaults.
    stage_at_fault, packages, recipe, front_end, forkable, alternatives, execution: as in `protocol`.
    """

    modules: Mapping[str, str]
    platform: Callable[[Options], Platform]
    declared: Sequence[Option] = ()
    variables: Callable[[Options], Mapping[str, str]] = lambda _: {}
    missing: Callable[[], str] = str
    script: Callable[[Options], ScriptRunner | None] = lambda _: None
    stage_at_fault: Callable[[VariantRuns], Stage] | None = None
    packages: tuple[str, ...] = ()
    recipe: Path | None = None
    front_end: Callable[[Options], str] = lambda _: ""
    forkable: bool = False
    file_suffixes: tuple[str, ...] = ()
    file_script: Callable[[Options, str], ScriptRunner | None] = lambda _, file: None
    alternatives: tuple[Alternative, ...] = ()
    execution: str = ""

    @property
    def options(self) -> Mapping[str, str]:
        return {option.name: option.described for option in self.declared}

    def probe(self) -> Availability:
        reason = self.missing()
        availability = Availability(False, reason) if reason else host.available(self.modules)
        return replace(availability, execution=self.execution)

    def environment(self, options: Options) -> Mapping[str, str]:
        return self.variables(self.checked(options))

    def open(self, options: Options) -> Platform:
        given = self.checked(options)
        self.variables(given)
        opened = self.platform(given)
        return _InOwnDirectory(opened) if self.execution == "simulated" else opened

    def script_runner(self, options: Options) -> ScriptRunner | None:
        defaults = self.checked({})
        return self.script({name: value for name, value in options.items() if defaults.get(name) != value})

    def file_runner(self, options: Options, file: str) -> ScriptRunner | None:
        defaults = self.checked({})
        return self.file_script({name: value for name, value in options.items() if defaults.get(name) != value}, file)

    def checked(self, options: Options) -> dict[str, str]:
        """Returns the options with the defaults of those that are not given. Raises `PlatformError`."""
        known = {option.name: option for option in self.declared}
        for name, value in options.items():
            if name not in known:
                raise PlatformError(f"unknown option {name}: this platform takes {', '.join(sorted(known))}")
            known[name].check(value)
        return {option.name: option.values[0] for option in self.declared if option.values} | dict(options)
