"""Lists every registered platform, whether it is available, and why not. `mindgap platforms` prints it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mindgap.environments import find as find_environment
from mindgap.environments.environment import installed
from mindgap.platforms.elsewhere import BackendElsewhere
from mindgap.platforms.protocol import Availability, Backend
from mindgap.platforms.registry import ENVIRONMENT, BrokenBackend, backends, find, is_import_path, parse


@dataclass(frozen=True, slots=True)
class PlatformInfo:
    """A registered platform. `backend`: the object that makes it. `reason`: why it is not available."""

    platform: str
    backend: str
    available: bool
    reason: str
    hardware: str
    versions: Mapping[str, str]
    options: Mapping[str, str]


def list_platforms() -> list[PlatformInfo]:
    """Lists all platforms by name. A probe that raises makes only its own platform unavailable."""
    return [_info(name, backend) for name, backend in backends().items()]


def platform_info(platform: str) -> PlatformInfo:
    """One platform, with its options, where it runs. Raises `PlatformError` as `find` does."""
    return _info(platform, find(platform)[0])


def package_versions(platform: str, packages: Iterable[str]) -> dict[str, str]:
    """The versions of packages in the environment of a platform; those that are not installed there are left out.

    Raises `EnvironmentProblem` where there is no such environment, or its interpreter does not answer.
    """
    name = "" if is_import_path(platform) else parse(platform).environment
    return find_environment(name).versions(*packages) if name else installed(packages)


def _info(name: str, backend: Backend) -> PlatformInfo:
    try:
        found = backend.probe()
    except Exception as error:  # what a platform does wrong is data
        found = Availability(False, f"its probe failed: {type(error).__name__}: {error}")
    kind = type(backend.backend if isinstance(backend, BackendElsewhere) else backend)
    made_by = "" if isinstance(backend, BrokenBackend) else f"{kind.__module__}.{kind.__qualname__}"
    return PlatformInfo(
        name,
        made_by,
        found.available,
        " ".join(found.reason.split()),
        found.hardware,
        dict(found.versions),
        {**backend.options, ENVIRONMENT: "NAME: the environment to run in (mindgap env; default: mindgap's own)"},
    )
