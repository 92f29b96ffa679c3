"""The backend of a platform that runs in another environment, or on a host, as the parent process sees it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mindgap.platforms.environments import Environment, EnvironmentProblem, EnvironmentRecipe, Host, read_recipe
from mindgap.platforms.environments.host_connection import Order, module_there, python_there, run_there, versions_there
from mindgap.platforms.protocol import (
    Availability,
    Backend,
    HasRecipe,
    NotOnThisMachine,
    Options,
    Platform,
    PlatformError,
)

_PROBE_S: Final = 120.0
_PROBES: Final = "mindgap.platforms.environment_process"


@dataclass(frozen=True)
class BackendInEnvironment:
    """A backend whose workers run in another environment, of this machine or a host.

    `backend`: the same backend here, which knows the options and the environment variables. `place`: where its object
    is (`package.module:attribute`), for the worker.
    """

    backend: Backend
    place: str
    where: Environment | Host

    @property
    def options(self) -> Mapping[str, str]:
        return self.backend.options

    def environment(self, options: Options) -> Mapping[str, str]:
        """As `protocol.Backend` has it. Variables that name files of this machine do not go to a host: the worker there
        sets them as they are there."""
        try:
            variables = self.backend.environment(options)
        except NotOnThisMachine:
            if isinstance(self.where, Host):
                return {}
            raise
        here = isinstance(self.where, Environment)
        return {name: value for name, value in variables.items() if here or not os.path.isabs(value)}

    def service_options(self) -> dict[str, Any]:
        """The options of `run.worker.platform_service` there. Raises `EnvironmentProblem` where no worker can run; of a
        host that turns out when a worker is started."""
        if isinstance(self.where, Host):
            return {"backend": self.place, "host": self.where.name, "tensors": ""}
        self.where.check()
        return {"backend": self.place, "environment": self.where.name, "layered": self.where.layered}

    def probe(self) -> Availability:
        return probe_all(self.where, [self.place])[self.place]

    def open(self, options: Options) -> Platform:
        raise PlatformError(f"platforms of {where_words(self.where)} are opened by its own workers only")


def where_words(where: Environment | Host) -> str:
    """An environment or host in words."""
    return f"{'host' if isinstance(where, Host) else 'environment'} {where.name}"


def python_in(where: Environment | Host) -> str:
    """The version of Python there. Raises `EnvironmentProblem`."""
    return python_there(where) if isinstance(where, Host) else where.facts().python


def versions_in(where: Environment | Host, packages: Sequence[str]) -> dict[str, str]:
    """The versions of packages there; those that are not installed are left out. Raises `EnvironmentProblem`."""
    return dict(versions_there(where, tuple(packages))) if isinstance(where, Host) else where.versions(*packages)


def declared(backend: Backend) -> Backend:
    """Returns a backend as its package declares it, wherever its workers run."""
    return backend.backend if isinstance(backend, BackendInEnvironment) else backend


@dataclass(frozen=True)
class BackendWithoutEnvironment:
    """A backend whose packages mindgap's own environment lacks, and whose recipe has not been followed yet.

    `reason`: why it does not run in mindgap's own environment.
    """

    backend: Backend
    recipe: EnvironmentRecipe
    reason: str

    @property
    def options(self) -> Mapping[str, str]:
        return self.backend.options

    def environment(self, options: Options) -> Mapping[str, str]:
        return self.backend.environment(options)

    def probe(self) -> Availability:
        return Availability(False, self._why())

    def open(self, options: Options) -> Platform:
        raise PlatformError(self._why())

    def _why(self) -> str:
        return f"{self.reason}; `{self.recipe.command}` makes its environment ({self.recipe.download_mb:g} MB)"


def placed(backend: Backend, place: str) -> Backend:
    """The backend of a platform that is named without an environment, where it runs: here; else in the
    environment of its recipe; else nowhere, with a reason that names the command. Raises `EnvironmentProblem` for an
    environment whose record is damaged."""
    file = backend.recipe if isinstance(backend, HasRecipe) else None
    if file is None:
        return backend
    here = backend.probe()
    if here.available:
        return backend
    recipe = read_recipe(file)
    made = recipe.made
    return (
        BackendWithoutEnvironment(backend, recipe, here.reason)
        if made is None
        else BackendInEnvironment(backend, place, made)
    )


def probe_all(where: Environment | Host, places: Sequence[str]) -> dict[str, Availability]:
    """Probes backends in an environment or on a host, by place. What is wrong with it is the reason of each."""
    try:
        if isinstance(where, Host):
            status, answer, printed = run_there(where, Order(module_there(_PROBES, *places)), _PROBE_S)
        else:
            status, answer, printed = _answer([*_command(where, _PROBES), *places], where.slower * _PROBE_S)
    except (EnvironmentProblem, OSError, subprocess.TimeoutExpired) as error:
        return dict.fromkeys(places, Availability(False, str(error)))
    try:
        availability: dict[str, dict[str, Any]] = json.loads(answer)
        return {place: _availability(availability[place]) for place in places}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        last = printed.strip().splitlines()[-1:] or [f"status {status}"]
        reason = f"{where_words(where)} cannot be probed: {last[0]}"
        return dict.fromkeys(places, Availability(False, reason))


def _availability(told: Mapping[str, Any]) -> Availability:
    """Reads the answer of a probe there. Raises TypeError, ValueError or AttributeError where it is something else."""
    availability = Availability(**told)
    texts: list[Any] = [
        availability.reason,
        availability.hardware,
        availability.execution,
        *availability.versions.values(),
    ]
    if told["available"] not in (True, False) or not all(isinstance(text, str) for text in texts):
        raise TypeError
    return availability


def _answer(command: Sequence[str], limit_s: float) -> tuple[int, str, str]:
    """Runs a command. Returns its status, and what it wrote on standard output and error.

    Files, not pipes: a child process that a runtime leaves behind would keep a pipe open.
    """
    with tempfile.TemporaryFile("w+", errors="replace") as out, tempfile.TemporaryFile("w+", errors="replace") as err:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)
        try:
            status = process.wait(limit_s)
        finally:
            # What it started goes with it.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        out.seek(0)
        err.seek(0)
        return status, out.read(), err.read()


def _command(where: Environment, module: str) -> list[str]:
    where.check()
    layered = ["--layered"] if where.layered else []
    return [*where.command(module), "--environment", where.name, *layered]
