"""Finds how a platform's users run a program or a model file: the runner, and what it is called."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mindgap.graph import MindgapError
from mindgap.platforms.model_formats import formats
from mindgap.platforms.name import PlatformName
from mindgap.platforms.other_environment import declared
from mindgap.platforms.protocol import Backend, PlatformError, RunsFiles, RunsPrograms, Scripted
from mindgap.platforms.registry import find
from mindgap.platforms.script_runner import ScriptRunner

if TYPE_CHECKING:
    from mindgap.sources.translated_model import ProbedModel

#: The calls of a runner that export or compile, and run.
_STEPS: Final = ("torch.onnx.export", "torch.export.export", "torch.jit.trace", "torch.compile", "torchax.extract_jax")


class NoOwnPath(MindgapError):
    """A platform or a program that has no way of its users' own, and why."""


def probe_writer(name: str) -> Callable[[Path, Path], ProbedModel | None] | None:
    """What writes a model file with its integers as outputs; None for another source."""
    known = formats().get(Path(name).suffix)
    if known is None:
        return None
    module, _, function = known.probe.partition(":")
    return getattr(importlib.import_module(module), function)


def is_model_file(source: str) -> bool:
    """Whether a source is a file of a runtime's own format, which a runtime that reads it is given byte for byte."""
    return source.partition("?")[0].endswith(tuple(formats()))


def runner_json(runner: ScriptRunner) -> dict[str, Any]:
    """Returns a runner as requests hold it."""
    given = {"run": runner.run, "imports": list(runner.imports), "properties": dict(runner.properties)}
    return {**given, "refusal": runner.refusal}


def program_runner_of(backend: Backend, platform: PlatformName, file: Path | None = None) -> ScriptRunner | None:
    """Returns how the platform's users run a program, or a model file of it; None for eager mode. Raises
    `NoOwnPath`."""
    own, options = declared(backend), platform.backend_options
    if platform.mode == "eager" and file is None:
        return None
    if platform.host:
        raise NoOwnPath(f"the program's own files are not on host {platform.host}: the captured graph alone runs there")
    try:
        if file is not None:
            runner = own.file_runner(options, str(file.resolve())) if isinstance(own, RunsFiles) else None
        elif isinstance(own, RunsPrograms):
            runner = own.program_runner(options)
        else:
            runner = own.script_runner(options) if isinstance(own, Scripted) else None
    except PlatformError:
        raise
    except Exception as error:  # what a third party's backend does wrong stops no comparison
        raise NoOwnPath(f"its backend failed: {type(error).__name__}: {error}") from error
    if runner is None:
        raise NoOwnPath("this platform, with these options, does not say how its users run a program")
    return runner


def check_file(platform: PlatformName, file: Path, mapped: bool = False) -> None:
    """Raises `MindgapError` for a model file that is not there, or that the platform does not read. `mapped`: its
    inputs have names or numbers to match."""
    backend = declared(find(platform)[0])
    suffixes = backend.file_suffixes if isinstance(backend, RunsFiles) else ()
    if file.suffix not in suffixes:
        reads = f"reads {' and '.join(suffixes)}" if suffixes else "reads no model files"
        raise MindgapError(f"--as {platform}={file}: {platform.device_mode} {reads}")
    if not file.is_file():
        raise MindgapError(f"--as {platform}={file}: no such file")
    runner = backend.file_runner(platform.backend_options, str(file)) if isinstance(backend, RunsFiles) else None
    if mapped and runner is not None and "model.matched(" not in runner.run:
        raise MindgapError(f"--input-map: {platform.device_mode} feeds a file in the order of the program's arguments")


def way_of(runner: ScriptRunner) -> str:
    """Returns the call by which a runner exports or compiles a program."""
    steps = {name: runner.run.find(f"{name}(") for name in _STEPS}
    there = [name for name, place in steps.items() if place >= 0]
    return min(there, key=lambda name: steps[name]) if there else "the runtime's own front end"
