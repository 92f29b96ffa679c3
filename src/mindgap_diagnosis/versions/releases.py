"""Lists the releases of a package that the package index offers, and makes an environment for each."""

from __future__ import annotations

import difflib
import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import distribution
from typing import Final

from mindgap.graph import MindgapError
from mindgap.platforms.environments import Environment, EnvironmentProblem, environments, read_recipe
from mindgap.platforms.environments.environment import installed, project_name
from mindgap.platforms.environments.installation import create, run
from mindgap.platforms.protocol import HasRecipe, Packaged
from mindgap.platforms.registry import registered

#: MB that an installed package takes where mindgap's own environment has no version of it.
_UNKNOWN_MB: Final = 100.0
#: Minutes of one run, and MB that are installed in a minute: 43 MB took 12 s, a run of a small model 20 s.
_RUN_MINUTES: Final = 0.5
_MB_A_MINUTE: Final = 200.0


@dataclass(frozen=True, slots=True)
class VersionedPackage:
    """The package whose releases are compared. `others`: what else an environment of the platform needs, `{}` for the
    same version. `extra`: requirements of the user."""

    name: str
    others: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()

    def requirements(self, version: str) -> tuple[str, ...]:
        return (f"{self.name}=={version}", *(each.format(version) for each in self.others), *self.extra)

    def environment(self, version: str) -> Environment | None:
        """An environment that exists with this version and nothing else."""
        wanted = self.requirements(version)
        return next((each for each in environments() if each.layered and each.requirements == wanted), None)

    @property
    def own_version(self) -> str:
        """The version in mindgap's own environment; empty for none."""
        return installed([self.name]).get(self.name, "")

    def is_own(self, version: str) -> bool:
        """Whether mindgap's own environment has all that an environment of this version would have."""
        return plain_version(self.own_version) == plain_version(version) and not (self.others or self.extra)

    def made(self, version: str, say: Callable[[str], None]) -> Environment:
        """The environment of a version, made where there is none. Raises `EnvironmentProblem`."""
        name = re.sub(r"[^A-Za-z0-9_.-]+", "-", "-".join((self.name, version, *self.extra)))
        wanted = self.requirements(version)
        return self.environment(version) or create(name, wanted, None, isolated=False, say=say)

    @property
    def installed_mb(self) -> float:
        """What the version in mindgap's own environment takes on the disk."""
        files = distribution(self.name).files if self.own_version else None
        return max(sum(file.size or 0 for file in files) / 1e6, 1.0) if files else _UNKNOWN_MB


def package_of(platform: str, named: str | None, extra: tuple[str, ...] = ()) -> VersionedPackage:
    """The package that decides the version of a platform (`DEVICE/MODE`), or the one that is named."""
    backend = registered(platform)
    packages = backend.packages if isinstance(backend, Packaged) else ()
    name = named or (packages[0] if packages else "torch")
    recipe = read_recipe(backend.recipe) if isinstance(backend, HasRecipe) and backend.recipe is not None else None
    others = () if recipe is None else recipe.requirements
    own = next((each.partition("==")[2] for each in others if project_name(each) == project_name(name)), "")
    # What the recipe has in the same version is released with the package: IREE's compiler and runtime.
    together = [each.replace(f"=={own}", "=={}") if own and each.endswith(f"=={own}") else each for each in others]
    return VersionedPackage(name, tuple(each for each in together if project_name(each) != project_name(name)), extra)


def releases(package: str) -> list[str]:
    """The releases that can be installed for this Python, oldest first, without previews and local builds.

    Raises `EnvironmentProblem` where pip is missing or the index does not know the package.
    """
    none = f"the package index lists no release of {package}"
    printed = run([sys.executable, "-m", "pip", "index", "versions", package], none)
    listed = re.search(r"^Available versions: (.+)$", printed, re.MULTILINE)
    if listed is None:
        raise EnvironmentProblem(none)
    newest_first = [each.partition("+")[0].strip() for each in listed.group(1).split(",")]
    return list(dict.fromkeys(reversed(newest_first)))


def between(package: str, listed: Sequence[str], one: str, other: str) -> tuple[str, ...]:
    """The releases from one version to another, oldest first. Raises `MindgapError` where one of them is none."""
    plain = [plain_version(each) for each in listed]
    for version in (one, other):
        if plain_version(version) not in plain:
            near = ", ".join(difflib.get_close_matches(version, listed, n=3, cutoff=0.5))
            there = f"near it are {near}" if near else f"there are {listed[0]} to {listed[-1]}"
            python = f"this Python ({sys.version_info[0]}.{sys.version_info[1]})"
            raise MindgapError(f"{package} has no release {version} that {python} can install: {there}")
    first, last = sorted(plain.index(plain_version(version)) for version in (one, other))
    if first == last:
        raise MindgapError(f"--good and --bad are one version, {listed[first]}: name two releases of {package}")
    return tuple(listed[first : last + 1])


def plain_version(version: str) -> str:
    """A version without a local build and without zeros at its end."""
    return re.sub(r"(\.0)+$", "", version.strip().removeprefix("v").partition("+")[0])


def plan(package: VersionedPackage, versions: Sequence[str]) -> tuple[str, float]:
    """The most that a bisection of these releases takes, with what is there already left out: in words, and the MB of
    environments. Minutes are those of a small model on a machine with nothing else to do."""
    runs = min(len(versions), 2 + math.ceil(math.log2(len(versions) - 1)))
    missing = [not package.is_own(each) and package.environment(each) is None for each in versions]
    made = missing[0] + missing[-1] + min(sum(missing[1:-1]), runs - 2)
    megabytes = made * package.installed_mb
    words = (
        f"{len(versions)} releases; at most {runs} runs and {made} environments to make, about {megabytes:.0f} MB on "
        f"the disk and {math.ceil(runs * _RUN_MINUTES + megabytes / _MB_A_MINUTE)} minutes"
    )
    return words, megabytes
