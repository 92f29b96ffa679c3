"""The backend of a platform that runs in another environment, as the parent process sees it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mindgap.environments import Environment, EnvironmentProblem
from mindgap.platforms.protocol import Availability, Backend, Options, Platform, PlatformError

_PROBE_S: Final = 120.0


@dataclass(frozen=True)
class BackendElsewhere:
    """A backend whose workers run in another environment.

    `backend`: the same backend here, which knows the options and the environment variables. `place`: where its object
    is (`package.module:attribute`), for the worker.
    """

    backend: Backend
    place: str
    where: Environment

    @property
    def options(self) -> Mapping[str, str]:
        return self.backend.options

    def environment(self, options: Options) -> Mapping[str, str]:
        return self.backend.environment(options)

    def worker_command(self) -> list[str]:
        """The command line of its workers. Raises `EnvironmentProblem` where none can run there."""
        return [*_command(self.where, "mindgap.run.worker"), "--backend", self.place]

    def probe(self) -> Availability:
        return probe_all(self.where, [self.place])[self.place]

    def open(self, options: Options) -> Platform:
        raise PlatformError(f"platforms of environment {self.where.name} are opened by its own workers only")


def probe_all(where: Environment, places: Sequence[str]) -> dict[str, Availability]:
    """Probes backends in an environment, by place. What is wrong with the environment is the reason of each."""
    try:
        command = [*_command(where, "mindgap.platforms.inside"), *places]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_PROBE_S, check=False)
    except (EnvironmentProblem, OSError, subprocess.TimeoutExpired) as error:
        return dict.fromkeys(places, Availability(False, str(error)))
    try:
        found: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
        return {place: Availability(**found[place]) for place in places}
    except (IndexError, ValueError, KeyError, TypeError):
        said = done.stderr.strip().splitlines()[-1:] or [f"status {done.returncode}"]
        reason = f"environment {where.name} cannot be probed: {said[0]}"
        return dict.fromkeys(places, Availability(False, reason))


def _command(where: Environment, module: str) -> list[str]:
    where.check()
    layered = ["--layered"] if where.layered else []
    return [*where.command(module), "--environment", where.name, *layered]
