"""Creates, adopts and removes environments."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from mindgap.platforms.environments.environment import (
    BASE_PACKAGES,
    NEEDED,
    Environment,
    EnvironmentProblem,
    find,
    folder_of,
    is_complete,
    own_packages,
)
from mindgap.platforms.environments.recipe import EnvironmentRecipe

#: Called with one line about what is being done.
Say = Callable[[str], None]


def create(name: str, requirements: Sequence[str], python: str | None, *, isolated: bool, say: Say) -> Environment:
    """Makes an environment and installs requirements (as pip takes them) in it.

    With mindgap's own Python, and unless `isolated`, packages that it has not installed itself come from the
    environment of mindgap (`layered`), so that another version of one runtime takes no second PyTorch.
    Raises `EnvironmentProblem` where the name is taken, the interpreter does not work or the installation fails;
    nothing is left behind then.
    """
    layered = python is None and not isolated
    with new_folder(name) as folder:
        made = Environment(name, str(_interpreter(folder / "venv")), tuple(requirements), created=True, layered=layered)
        uv = None if layered else shutil.which("uv")
        make_venv(folder / "venv", python or sys.executable, uv, layered=layered, say=say)
        wanted = [*requirements, *(() if layered else NEEDED)]
        say(f"installing {' '.join(wanted)}")
        install(made.python, wanted, uv)
        made.check()
        made.save()
    return made


def create_from_recipe(recipe: EnvironmentRecipe, say: Say) -> Environment:
    """Makes the environment of a recipe. It keeps mindgap's own PyTorch, unless the recipe is `isolated`: what asks for
    another one is not installed.

    Raises `EnvironmentProblem` as `create` does.
    """
    requirements_wanted = (*recipe.requirements, *recipe.no_deps, *recipe.npm)
    layered = not recipe.isolated
    uv = None if layered else shutil.which("uv")
    with new_folder(recipe.name) as folder:
        made = Environment(
            recipe.name, str(_interpreter(folder / "venv")), requirements_wanted, created=True, layered=layered
        )
        make_venv(folder / "venv", sys.executable, uv, layered=layered, say=say)
        say(f"installing {' '.join(requirements_wanted)} ({recipe.download_mb:g} MB to download)")
        if recipe.isolated:
            install(made.python, [*recipe.requirements, *NEEDED], uv)
        elif recipe.requirements:
            kept = folder / "kept.txt"
            kept.write_text(f"torch=={version('torch')}\n", encoding="utf-8")
            install(made.python, ["--constraint", str(kept), *recipe.requirements], None)
        if recipe.no_deps:
            install(made.python, ["--no-deps", *recipe.no_deps], uv)
        for package in recipe.npm:
            _install_from_npm(_site_packages(folder / "venv"), package)
        made.check()
        made.save()
    for line in recipe.missing_programs():
        say(line)
    return made


def adopt(name: str, python: str, say: Say) -> Environment:
    """Records an environment that exists. It is left as it is: what workers need and it lacks goes to a folder of
    mindgap's, behind its packages. Raises `EnvironmentProblem` as `create` does."""
    # Not resolved: the link in a virtual environment is what makes it one.
    path = shutil.which(python) or python
    environment = Environment(name, os.path.abspath(path))
    with new_folder(name):
        missing = environment.facts(*NEEDED).missing
        if missing:
            say(f"installing {' '.join(missing)} in {environment.packages}; the environment itself is not changed")
            options = ["--no-deps", "--target", str(environment.packages)]
            install(environment.python, [*options, *missing], shutil.which("uv"))
        environment.check()
        environment.save()
    return environment


def remove(name: str) -> Path:
    """Deletes an environment that was created, or the record of an adopted one. Returns the deleted folder.

    Raises `EnvironmentProblem` where there is none of that name.
    """
    folder = folder_of(name)
    if not folder.is_dir():
        find(name)
    shutil.rmtree(folder)
    return folder


@contextmanager
def new_folder(name: str) -> Generator[Path]:
    """Makes the folder of a new environment, and deletes it if the block raises. What a creation that did not end has
    left there is deleted first. Raises `EnvironmentProblem` where the name is taken, by another process too."""
    folder = folder_of(name)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f".{name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise EnvironmentProblem(f"environment {name} is being made by another process") from None
        if is_complete(name):
            taken = find(name)
            what = " ".join(taken.requirements) or taken.python
            raise EnvironmentProblem(f"environment {name} exists ({what}); mindgap env remove {name} deletes it")
        shutil.rmtree(folder, ignore_errors=True)
        try:
            folder.mkdir()
            yield folder
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise


def make_venv(venv: Path, python: str, uv: str | None, *, layered: bool, say: Say) -> None:
    """Makes a virtual environment. `layered`: its packages come before those of mindgap's environment, whose Python
    `python` is then."""
    say(f"making {venv}")
    _make(venv, python, uv)
    if layered:
        _site_packages(venv).joinpath(BASE_PACKAGES).write_text("\n".join(own_packages()) + "\n")


def _make(venv: Path, python: str, uv: str | None) -> None:
    if uv is not None:
        run([uv, "venv", "--quiet", "--python", python, str(venv)], f"no environment can be made with {python}")
        return
    without_pip = ["--without-pip"] if has_pip() else []
    run([python, "-m", "venv", *without_pip, str(venv)], f"no environment can be made with {python}")


def install(python: str, arguments: Sequence[str], uv: str | None) -> None:
    if not arguments:
        return
    if uv is not None:
        command = [uv, "pip", "install", "--quiet", "--python", python]
    elif has_pip():
        command = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
    else:
        command = [python, "-m", "pip", "install", "--quiet"]
    run([*command, *arguments], f"{' '.join(arguments)} cannot be installed")


def _install_from_npm(packages: Path, asked: str) -> None:
    """Installs a package of npm (`NAME@VERSION`) in a folder of Python packages, in one of its name with `_` for `-`.

    It gets the metadata of a distribution, so that its version is found as that of any package. Raises
    `EnvironmentProblem` where npm is missing or fails.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise EnvironmentProblem(f"{asked} comes from npm, which is not on this machine: apt-get install npm")
    name, _, release = asked.rpartition("@")
    folder = packages / name.replace("-", "_")
    folder.mkdir()
    options = ["--no-audit", "--no-fund", "--ignore-scripts", "--no-save", "--prefix", str(folder)]
    run([npm, "install", *options, asked], f"{asked} cannot be installed")
    metadata = packages / f"{folder.name}-{release}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {release}\n", encoding="utf-8")


def has_pip() -> bool:
    """Whether pip is installed. To look for its module would make setuptools give Python's own distutils to this
    process from then on, with which Inductor cannot compile."""
    try:
        return bool(version("pip"))
    except PackageNotFoundError:
        return False


def run(command: Sequence[str], what: str) -> str:
    """Runs a command. Returns what it printed. Raises `EnvironmentProblem`, with `what` and its error."""
    try:
        # Whatever pip finds on PYTHONPATH it would take for installed.
        variables = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, env=variables)
    except OSError as error:
        raise EnvironmentProblem(f"{what}: {error}") from error
    if done.returncode != 0:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        errors = [line for line in lines if line.lstrip().lower().startswith("error")] or lines
        raise EnvironmentProblem(f"{what}: {errors[-1] if errors else f'status {done.returncode}'}")
    return done.stdout


def _interpreter(venv: Path) -> Path:
    return venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _site_packages(venv: Path) -> Path:
    return Path(sysconfig.get_path("purelib", "venv", {"base": str(venv), "platbase": str(venv)}))
