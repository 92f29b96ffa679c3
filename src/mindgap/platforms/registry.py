"""Looks up a platform's backend: in the entry-point group `mindgap.platforms`, or at an import path.

The option `env=NAME`, which every platform takes, names another environment to run in (`mindgap env`), and `host=NAME`
a host (`[hosts.NAME]` of a `mindgap.toml`). Importing this module imports no framework, and `find` imports the module
of one backend only.
"""

from __future__ import annotations

import difflib
import os
import sys
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import Distribution, EntryPoint, entry_points
from typing import Any, Final
from weakref import WeakKeyDictionary

from mindgap.platforms.environment_process import backend_at
from mindgap.platforms.environments import Environment, Host, find as find_environment, find_host, read_recipe
from mindgap.platforms.name import ENVIRONMENT, HOST, PlatformName, parse
from mindgap.platforms.other_environment import BackendInEnvironment, placed
from mindgap.platforms.protocol import Availability, Backend, Options, Platform, PlatformError

GROUP: Final = "mindgap.platforms"
_OURS: Final = "mindgap"


@dataclass(frozen=True)
class BrokenBackend:
    """Replaces the backend of an entry point that could not be loaded."""

    name: str
    reason: str
    options: Mapping[str, str] = field(default_factory=dict[str, str])

    def probe(self) -> Availability:
        return Availability(False, self.reason)

    def environment(self, options: Options) -> Mapping[str, str]:
        raise PlatformError(f"platform {self.name!r} cannot be used: {self.reason}")

    def open(self, options: Options) -> Platform:
        raise PlatformError(f"platform {self.name!r} cannot be used: {self.reason}")


def backends() -> Mapping[str, Backend]:
    """Returns every registered backend by `DEVICE/MODE`, sorted, as `find` does. One that fails to load is a
    `BrokenBackend`."""
    return {name: _placed(point) for name, point in sorted(_points().items())}


def find(platform: str) -> tuple[Backend, Options]:
    """Returns the backend and the options of a platform's name, checked before any worker starts.

    `package.module:attribute` names a backend in the making, before it has an entry point; its options are not checked.
    Of a platform in another environment or on a host, a `BackendInEnvironment`; without the options `env` and `host`
    that is one that mindgap's own environment lacks and that has an environment by its recipe. Raises `PlatformError`
    for an unknown name, option or value, and for a broken backend, `EnvironmentProblem` for an unknown environment or
    host. Availability is not checked: the backend's `probe` does that.
    """
    name = parse(platform)
    if name.is_import_path:
        return _imported(name), name.backend_options
    points = _points()
    if name.device_mode not in points:
        raise PlatformError(
            f"no platform {name.device_mode!r}{_near(name.device_mode, points)}; `mindgap platforms` lists them all"
        )
    point = points[name.device_mode]
    where = _where(name)
    backend = _placed(point) if where is None else BackendInEnvironment(_load(point), point.value, where)
    environment(name, backend)
    return backend, name.backend_options


def _imported(name: PlatformName) -> Backend:
    try:
        backend = backend_at(name.device_mode)
    except PlatformError as error:
        raise PlatformError(f"platform {str(name)!r}: {error}") from error
    where = _where(name)
    return backend if where is None else BackendInEnvironment(backend, name.device_mode, where)


def _where(name: PlatformName) -> Environment | Host | None:
    """Where a platform is named to run; None where it names neither an environment nor a host."""
    if name.host and name.environment:
        raise PlatformError(
            f"platform {str(name)!r} names a host and an environment of this machine: the command of a host names the "
            "Python there"
        )
    if name.host:
        return find_host(name.host)
    return find_environment(name.environment) if name.environment else None


def registered(device_mode: str) -> Backend | None:
    """Returns a backend as its package has it, wherever its workers run; None for a platform that is not registered."""
    return _registered(device_mode, tuple(sys.path))


@cache
def _registered(device_mode: str, path: tuple[str, ...]) -> Backend | None:
    """`path`: where packages are looked for, which takes 20 ms."""
    point = _points().get(device_mode)
    return None if point is None else _load(point)


def places() -> dict[str, str]:
    """Returns where the backend of every registered platform is, as `package.module:attribute`."""
    return {name: point.value for name, point in sorted(_points().items())}


def canonical(text: str) -> PlatformName:
    """Parses the name of a platform that a user gives, after the checks of `find`, but for the environment or host,
    which this machine need not know. The backend of an import path is not looked for. Raises `PlatformError`."""
    name = parse(text)
    if not name.is_import_path:
        find(PlatformName(name.device_mode, name.backend_options))
    return name


def environment(name: PlatformName, backend: Backend) -> Mapping[str, str]:
    """Returns the environment variables that the platform's worker needs. Raises `PlatformError` as `find` does."""
    if not isinstance(backend, BrokenBackend):
        for key in name.backend_options:
            if key not in backend.options:
                raise PlatformError(
                    f"platform {name.device_mode!r} has no option {key!r}{_near(key, backend.options)}; "
                    f"it takes {', '.join(sorted([*backend.options, ENVIRONMENT, HOST]))}"
                )
    try:
        variables: Mapping[Any, Any] = backend.environment(name.backend_options)
        wrong = [k for k, v in variables.items() if not (isinstance(k, str) and isinstance(v, str))]
    except PlatformError:
        raise
    except Exception as error:
        raise PlatformError(f"platform {str(name)!r}: its backend failed: {type(error).__name__}: {error}") from error
    if wrong:
        raise PlatformError(f"platform {str(name)!r}: its backend wants variables that are not text: {wrong}")
    return variables


def _near(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=3, cutoff=0.5)
    return f" (did you mean {' or '.join(close)}?)" if close else ""


def _points() -> Mapping[str, EntryPoint]:
    """Returns the entry points by name. If a name is claimed twice, ours wins, with a warning."""
    return _points_of(tuple((place, _changed(place)) for place in sys.path))


@cache
def _points_of(path: tuple[tuple[str, int], ...]) -> Mapping[str, EntryPoint]:
    """`path`: where packages are looked for, and when each place changed. Looking takes 20 ms."""
    points = [(distribution_name(point), point) for point in entry_points(group=GROUP)]
    by_name: dict[str, tuple[str, EntryPoint]] = {}
    for name, point in sorted(points, key=lambda each: (each[0] != _OURS, each[0])):
        owner, taken = by_name.setdefault(point.name, (name, point))
        if taken.value != point.value:
            warnings.warn(f"platform {point.name!r} of {name} is hidden by the one of {owner}", stacklevel=4)
    return {name: point for name, (_, point) in by_name.items()}


def _changed(place: str) -> int:
    try:
        return os.stat(place or ".").st_mtime_ns
    except OSError:
        return 0


#: By the distribution's identity: a name is read from a file of metadata, which takes 2 ms for a long description.
_names: Final[WeakKeyDictionary[Distribution, str]] = WeakKeyDictionary()


def distribution_name(point: EntryPoint) -> str:
    """Returns the name of the distribution that has an entry point; empty where it has none."""
    if point.dist is None:
        return ""
    if point.dist not in _names:
        _names[point.dist] = point.dist.name
    return _names[point.dist]


def _placed(point: EntryPoint) -> Backend:
    backend = _load(point)
    return backend if isinstance(backend, BrokenBackend) else placed(backend, point.value)


@cache
def _load(point: EntryPoint) -> Backend:
    where = f"{point.value} of {distribution_name(point) or 'an unnamed distribution'}"
    try:
        backend: Any = point.load()
        missing = [a for a in ("options", "probe", "environment", "open") if not hasattr(backend, a)]
        if missing:
            return BrokenBackend(point.name, f"{where} is no backend: it has no {', '.join(missing)}")
        options: Any = backend.options
        if not isinstance(options, Mapping):
            return BrokenBackend(point.name, f"{where} is no backend: its options are no mapping")
        recipe: Any = getattr(backend, "recipe", None)
        if recipe is not None:
            read_recipe(recipe)
    except BaseException as error:  # a third party's module may raise anything, SystemExit too
        if isinstance(error, KeyboardInterrupt):
            raise
        return BrokenBackend(point.name, f"{where} cannot be loaded: {type(error).__name__}: {error}")
    return backend
