"""Lists the releases of a package that the package index offers, and makes an environment for each."""

from __future__ import annotations

import difflib
import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from typing import Final

from mindgap.graph import MindgapError
from mindgap.platforms.environments import Environment, EnvironmentProblem, environments, read_recipe
from mindgap.platforms.environments.environment import installed, project_name
from mindgap.platforms.environments.installation import create, has_pip, run
from mindgap.platforms.protocol import HasRecipe, Packaged
from mindgap.platforms.registry import registered

_TORCH: Final = "torch"
#: MB that an installed package takes where mindgap's own environment has no version of it.
_UNKNOWN_MB: Final = 100.0
#: Minutes of one run, and MB that are installed in a minute: 43 MB took 12 s, a run of a small model 20 s.
_RUN_MINUTES: Final = 0.5
_MB_A_MINUTE: Final = 200.0


@dataclass(frozen=True, slots=True)
class VersionedPackage:
    """The package whose releases are compared. `others`: further requirements of an environment with it."""

    name: str
    others: tuple[str, ...] = ()

    def requirements(self, version: str) -> tuple[str, ...]:
        return (f"{self.name}=={version}", *self.others)

    def environment(self, version: str) -> Environment | None:
        """An environment that exists with this version and nothing else."""
        wanted = self.requirements(version)
        return next((each for each in environments() if each.layered and each.requirements == wanted), None)

    def is_own(self, version: str) -> bool:
        """Whether mindgap's own environment has this version."""
        own = installed([self.name]).get(self.name)
        return own is not None and plain_version(own) == plain_version(version) and not self.others

    @property
    def local_build(self) -> str:
        """The version in mindgap's own environment, if it is no release (`2.13.0+cpu`)."""
        own = installed([self.name]).get(self.name, "")
        return own if "+" in own else ""

    def made(self, version: str, say: Callable[[str], None]) -> Environment:
        """The environment of a version, made where there is none. Raises `EnvironmentProblem`."""
        name = re.sub(r"[^A-Za-z0-9_.-]", "-", f"{self.name}-{version}")
        return self.environment(version) or create(
            name, self.requirements(version), None, isolated=False, say=say
        )  # fmt: skip

    @property
    def installed_mb(self) -> float:
        """What the version in mindgap's own environment takes on the disk."""
        try:
            files = distribution(self.name).files or ()
        except PackageNotFoundError:
            return _UNKNOWN_MB
        return max(sum(file.size or 0 for file in files) / 1e6, 1.0)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a bisection may take. `versions`: from one end to the other, oldest first."""

    versions: tuple[str, ...]
    runs: int
    environments: int
    megabytes: float

    @property
    def minutes(self) -> int:
        """Minutes on a machine with nothing else to do, for a small model."""
        return math.ceil(self.runs * _RUN_MINUTES + self.megabytes / _MB_A_MINUTE)

    @property
    def words(self) -> str:
        return (
            f"{len(self.versions)} releases; at most {self.runs} runs and {self.environments} environments to make, "
            f"about {self.megabytes:.0f} MB on the disk and {self.minutes} minutes"
        )


def package_of(platform: str, named: str | None) -> VersionedPackage:
    """The package that decides the version of a platform (`DEVICE/MODE`), or the one that is named."""
    backend = registered(platform)
    packages = backend.packages if isinstance(backend, Packaged) else ()
    name = named or (packages[0] if packages else _TORCH)
    recipe = read_recipe(backend.recipe) if isinstance(backend, HasRecipe) and backend.recipe is not None else None
    others = () if recipe is None else recipe.requirements
    return VersionedPackage(name, tuple(each for each in others if project_name(each) != project_name(name)))


def releases(package: str) -> list[str]:
    """The releases that can be installed for this Python, oldest first, without previews and local builds.

    Raises `EnvironmentProblem` where pip is missing or the index does not know the package.
    """
    if not has_pip():
        raise EnvironmentProblem("releases are listed by pip, which is not installed: python -m ensurepip")
    command = [sys.executable, "-m", "pip", "index", "versions", package]
    printed = run(command, f"the package index lists no release of {package}")
    listed = re.search(r"^Available versions: (.+)$", printed, re.MULTILINE)
    if listed is None:
        raise EnvironmentProblem(f"the package index lists no release of {package}")
    newest_first = [each.partition("+")[0].strip() for each in listed.group(1).split(",")]
    return list(dict.fromkeys(reversed(newest_first)))


def between(package: str, listed: Sequence[str], one: str, other: str) -> tuple[str, ...]:
    """The releases from one version to another, oldest first. Raises `MindgapError` where one of them is none."""
    at = sorted((_place(package, listed, one), _place(package, listed, other)))
    if at[0] == at[1]:
        raise MindgapError(f"--good and --bad are one version, {listed[at[0]]}: name two releases of {package}")
    return tuple(listed[at[0] : at[1] + 1])


def _place(package: str, listed: Sequence[str], version: str) -> int:
    plain = [plain_version(each) for each in listed]
    if plain_version(version) in plain:
        return plain.index(plain_version(version))
    near = difflib.get_close_matches(version, listed, n=3, cutoff=0.5)
    there = f"near it are {', '.join(near)}" if near else f"there are {listed[0]} to {listed[-1]}"
    raise MindgapError(
        f"{package} has no release {version} that this Python ({sys.version_info[0]}.{sys.version_info[1]}) can "
        f"install: {there}"
    )


def plain_version(version: str) -> str:
    """A version without a local build and without zeros at its end."""
    return re.sub(r"(\.0)+$", "", version.strip().removeprefix("v").partition("+")[0])


def plan(package: VersionedPackage, versions: Sequence[str]) -> Plan:
    """The most that a bisection of these releases takes, with what is there already left out."""
    runs = min(len(versions), 2 + math.ceil(math.log2(len(versions) - 1)))
    there = [each for each in versions if package.is_own(each) or package.environment(each) is not None]
    ends = sum(each not in there for each in (versions[0], versions[-1]))
    inner = sum(each not in there for each in versions[1:-1])
    made = ends + min(inner, runs - 2)
    return Plan(tuple(versions), runs, made, made * package.installed_mb)
