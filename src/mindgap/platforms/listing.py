"""Lists every registered platform, whether it is available, and why not; and the recipes of their environments."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from mindgap.platforms.environments import (
    EnvironmentProblem,
    EnvironmentRecipe,
    Host,
    find as find_environment,
    hosts,
    read_recipe,
)
from mindgap.platforms.environments.emulated import arithmetic_words, known_arithmetic
from mindgap.platforms.environments.environment import installed, project_name
from mindgap.platforms.environments.recipe import emulated_recipes, framework_recipes
from mindgap.platforms.host_runtime import HostRuntime
from mindgap.platforms.name import ENVIRONMENT, HOST, PlatformName, parse
from mindgap.platforms.other_environment import (
    BackendInEnvironment,
    BackendWithoutEnvironment,
    declared,
    probe_all,
    versions_in,
)
from mindgap.platforms.protocol import Availability, Backend, HasRecipe, Packaged
from mindgap.platforms.registry import BrokenBackend, backends, find, places, registered
from mindgap.platforms.simulated_arithmetic import checked_words, kept_arithmetic


@dataclass(frozen=True, slots=True)
class PlatformInfo:
    """A registered platform. `backend`: the object that makes it. `reason`: why it is not available.

    `environment`: the name of the environment that it runs in, empty for mindgap's own. `host`: the name of the host
    that it runs on, empty for this machine. `execution`: `simulated` or `emulated`, empty for native. `arithmetic`: how
    exact the last check found what no hardware runs (`arithmetic checked: 5 of 14 exact`); empty for native.
    """

    platform: str
    backend: str
    available: bool
    reason: str
    hardware: str
    versions: Mapping[str, str]
    options: Mapping[str, str]
    environment: str = ""
    execution: str = ""
    host: str = ""
    arithmetic: str = ""

    def with_options(self, platform: PlatformName) -> PlatformInfo:
        """The same platform with options: a software driver that they name is emulated."""
        backend = registered(platform.device_mode)
        software = isinstance(backend, HostRuntime) and names_software(platform, backend)
        execution = self.execution or ("emulated" if software else "")
        measured = self.available and not self.host
        arithmetic = _arithmetic(platform, self.environment, execution, self.versions) if measured else ""
        return replace(self, platform=platform, execution=execution, arithmetic=arithmetic)


def names_software(platform: PlatformName, backend: HostRuntime) -> bool:
    """Whether the options of a platform name a software driver: every value of `device` but the default is one."""
    chosen = platform.backend_options.get("device", "")
    values = next((each.values for each in backend.declared if each.name == "device"), ())
    return chosen in values[1:]


def _arithmetic(platform: PlatformName, environment: str, execution: str, versions: Mapping[str, str]) -> str:
    """What is kept of the arithmetic of a platform: with options that of exactly these, without that of all."""
    if environment and (where := find_environment(environment)).emulation:
        return arithmetic_words(known_arithmetic(where))
    kept = kept_arithmetic(environment, lambda _: versions)
    name = str(PlatformName(platform.device_mode, platform.backend_options))
    if platform.backend_options or name in kept:
        return checked_words(kept.get(name, {})) if execution else ""
    others = [
        f"{key.partition('@')[2]}: {checked_words(result)}"
        for key, result in kept.items()
        if key.partition("@")[0] == platform.device_mode
    ]
    return "; ".join(others) or (checked_words({}) if execution else "")


def list_platforms(asked: Collection[str] | None = None) -> list[PlatformInfo]:
    """Lists platforms by name. A probe that raises makes only its platform unavailable.

    `asked`: of the platforms that run in environments of their own, whose probe starts an interpreter, only these
    (`DEVICE/MODE`) are listed; None for all.
    """
    return [
        _info(name, backend)
        for name, backend in backends().items()
        if asked is None or name in asked or not isinstance(backend, BackendInEnvironment)
    ]


def list_hosts() -> list[PlatformInfo]:
    """Lists the platforms of the known hosts, by host and name: each host is queried once, in parallel. One that is not
    reached has one entry, `*@host=NAME`, with the reason. Raises `HostProblem` for a `mindgap.toml` that is wrong."""
    known = list(hosts().values())
    if not known:
        return []
    with ThreadPoolExecutor(len(known), "mindgap-hosts") as threads:
        return [info for infos in threads.map(_host_platforms, known) for info in infos]


def known_hosts() -> list[PlatformInfo]:
    """Lists the known hosts, one entry `*@host=NAME` each, without a connection. Raises as `list_hosts` does."""
    return [_whole_host(host, "not asked; --hosts asks") for host in hosts().values()]


def _whole_host(host: Host, reason: str) -> PlatformInfo:
    return PlatformInfo(f"*@{HOST}={host.name}", "", False, reason, "", {}, {}, host=host.name)


def _host_platforms(host: Host) -> list[PlatformInfo]:
    there = {name: place for name, place in places().items() if not isinstance(registered(name), BrokenBackend)}
    probes = probe_all(host, list(there.values()))
    reasons = {each.reason for each in probes.values()}
    if len(reasons) == 1 and all(not each.available for each in probes.values()):
        return [_whole_host(host, reasons.pop())]
    named = {name: PlatformName(name, {HOST: host.name}) for name in there}
    return [_info_of(str(named[name]), _backend(name, host), probes[place]) for name, place in there.items()]


def _backend(name: str, host: Host) -> BackendInEnvironment:
    return BackendInEnvironment(declared(backends()[name]), places()[name], host)


def platform_info(platform: PlatformName) -> PlatformInfo:
    """One platform, with its options, where it runs. Raises `PlatformError` as `find` does."""
    return _info(platform, find(platform)[0])


def package_versions(platform: PlatformName, packages: Iterable[str]) -> dict[str, str]:
    """The versions of packages in the environment of a platform, or on its host; those that are not installed there are
    left out.

    Raises `EnvironmentProblem` where there is no such environment or host, or its interpreter does not answer.
    """
    backend = None if platform.is_import_path else find(platform)[0]
    return (
        versions_in(backend.where, list(packages)) if isinstance(backend, BackendInEnvironment) else installed(packages)
    )


def recipes() -> Mapping[str, EnvironmentRecipe]:
    """All recipes by name: those of registered platforms, each with its platforms, of emulated processors, and of
    frameworks."""
    files = dict[Path, list[str]]()
    for name in places():
        backend = registered(name)
        if isinstance(backend, HasRecipe) and backend.recipe is not None:
            files.setdefault(backend.recipe, []).append(name)
    of_platforms = {file.stem: replace(read_recipe(file), platforms=tuple(names)) for file, names in files.items()}
    return dict(sorted({**of_platforms, **emulated_recipes(), **framework_recipes()}.items()))


def find_recipe(name: str) -> EnvironmentRecipe:
    """Returns a recipe. Raises `EnvironmentProblem` where there is none of that name."""
    known = recipes()
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=2)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(sorted(known))}"
    raise EnvironmentProblem(
        f"no recipe {name}: {hint}; else say what to install (as in 'onnxruntime==1.28.0'), or adopt an environment "
        "(--python)"
    )


def requirements_elsewhere(runtime: str) -> list[str]:
    """Returns requirements of a runtime for an environment that takes nothing from mindgap's own.

    runtime: a recipe, whose versions are taken, or the device of a platform that has none (`openvino`). What else its
    platforms need is taken in the version that mindgap's own environment has. Raises `EnvironmentProblem` for an
    unknown runtime, and for a recipe that installs more than wheels with their dependencies.
    """
    own = registered(f"{runtime}/cpu")
    if not isinstance(own, Packaged) or (isinstance(own, HasRecipe) and own.recipe):
        recipe = find_recipe(runtime)
        if recipe.no_deps or recipe.npm or recipe.machine:
            raise EnvironmentProblem(
                f"the recipe {runtime} cannot be taken to another architecture; mindgap env create NAME --arch "
                "ARCHITECTURE REQUIREMENT… installs what it is given"
            )
        needed, served = recipe.requirements, [registered(name) for name in recipe.platforms]
    else:
        needed, served = (), [own]
    packages = dict.fromkeys(name for each in served if isinstance(each, Packaged) for name in each.packages)
    versions = installed(packages)
    given = {project_name(each) for each in needed}
    lacking = [name for name in packages if project_name(name) not in given]
    return [*needed, *(f"{name}=={versions[name]}" if name in versions else name for name in lacking)]


def _info(name: str, backend: Backend) -> PlatformInfo:
    try:
        availability = backend.probe()
    except Exception as error:  # what a platform does wrong is data
        availability = Availability(False, f"its probe failed: {type(error).__name__}: {error}")
    return _info_of(name, backend, availability)


def _info_of(name: str, backend: Backend, found: Availability) -> PlatformInfo:
    inner = isinstance(backend, (BackendInEnvironment, BackendWithoutEnvironment))
    own = backend.backend if inner else backend
    kind = type(own)
    place = backend.where if isinstance(backend, BackendInEnvironment) else None
    where, host = ("", place.name) if isinstance(place, Host) else (place.name if place else "", "")
    default = f"{where}, by its recipe" if where else "mindgap's own"
    made_by = "" if isinstance(backend, BrokenBackend) else f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(own, HostRuntime):
        made_by = own.platform.__module__  # where it is declared
    info = PlatformInfo(
        name,
        made_by,
        found.available,
        " ".join(found.reason.split()),
        found.hardware,
        dict(found.versions),
        {
            **backend.options,
            ENVIRONMENT: f"NAME: the environment to run in (mindgap env; default: {default})",
            HOST: "NAME: the host to run on ([hosts.NAME] of a mindgap.toml; default: this machine)",
        },
        where,
        found.execution,
        host,
    )
    return info if host or not found.available else info.with_options(parse(name))
