"""Reads recipes: environments that mindgap knows by name, so that `mindgap env create NAME` needs no requirements.

A recipe is a TOML file next to the backend that names it (`protocol.HasRecipe`). Its name is that of the environment.
"""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from mindgap.platforms.environments.environment import Environment, EnvironmentProblem, find, is_complete


@dataclass(frozen=True, slots=True)
class EnvironmentRecipe:
    """How one environment is made.

    `requirements`: pinned, installed with their dependencies, next to mindgap's PyTorch. `no_deps`: installed without
    dependencies, after those; for packages that ask for another PyTorch. `npm`: packages of npm, as `NAME@VERSION`.
    `isolated`: nothing comes from mindgap's environment; for packages that run with another PyTorch only, which
    `requirements` name. `programs`: what must be on the PATH at run time -> how to install it. `download_mb`,
    `seconds`: measured once, when the recipe was written. `platforms`: those that run there without the option `env`
    (`DEVICE/MODE`), which `listing.recipes` adds.

    Of a processor that is emulated: `machine`, its architecture; `processor`, its model.
    """

    name: str
    about: str
    requirements: tuple[str, ...]
    download_mb: float
    seconds: float
    platforms: tuple[str, ...] = ()
    no_deps: tuple[str, ...] = ()
    npm: tuple[str, ...] = ()
    isolated: bool = False
    machine: str = ""
    processor: str = ""
    programs: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def command(self) -> str:
        """The command that makes the environment."""
        return f"mindgap env create {self.name}"

    @property
    def made(self) -> Environment | None:
        """The environment of that name, where there is one. Raises `EnvironmentProblem` for a damaged record."""
        return made_environment(self.name)

    def missing_programs(self) -> list[str]:
        """One line for each program that is not on the PATH."""
        return [
            f"{self.name} needs {program} at run time, which is not on this machine: {remedy}"
            for program, remedy in self.programs.items()
            if shutil.which(program) is None
        ]


@cache
def read_recipe(path: Path) -> EnvironmentRecipe:
    """Returns the recipe in a file. Raises `EnvironmentProblem` for one that cannot be read."""
    try:
        data: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        lists = {name: tuple(data.pop(name, ())) for name in ("requirements", "no_deps", "npm")}
        return EnvironmentRecipe(name=path.stem, **lists, **data)
    except (OSError, ValueError, TypeError) as error:
        raise EnvironmentProblem(f"recipe {path}: {error}") from error


def emulated_recipes() -> dict[str, EnvironmentRecipe]:
    """The recipes of emulated processors of other architectures, by name."""
    return {file.stem: read_recipe(file) for file in sorted(Path(__file__).parent.glob("*.toml"))}


def architecture_recipe(name: str) -> EnvironmentRecipe | None:
    """The recipe of another architecture that an environment's name is of: `arm64`, `arm64-RUNTIME`; else None."""
    return emulated_recipes().get(name.partition("-")[0])


def framework_recipes() -> dict[str, EnvironmentRecipe]:
    """The recipes of frameworks whose functions a portability study runs, and which no platform needs, by name."""
    return {file.stem: read_recipe(file) for file in sorted((Path(__file__).parent / "frameworks").glob("*.toml"))}


def made_environment(name: str) -> Environment | None:
    """Returns the environment of a recipe's name, where there is one. Raises `EnvironmentProblem` for a damaged
    record."""
    return find(name) if is_complete(name) else None
