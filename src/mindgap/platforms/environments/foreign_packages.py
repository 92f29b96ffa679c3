"""Unpacks packages of Debian into a folder, of any architecture. Needs no root rights and installs nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mindgap.platforms.environments.environment import EnvironmentProblem

#: As `platform.machine()` names an architecture -> as Debian does.
DEBIAN: Final = {"aarch64": "arm64", "x86_64": "amd64", "riscv64": "riscv64", "ppc64le": "ppc64el", "s390x": "s390x"}
_APT_S: Final = 600.0
#: What apt keeps is in a separate folder. With an empty list of installed packages it downloads all that are needed.
_CONFIGURATION: Final = """\
APT::Architecture "{architecture}";
APT::Architectures {{ "{architecture}"; }};
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Dir::State "{state}";
Dir::State::status "{state}/status";
Dir::Cache "{state}/cache";
Debug::NoLocking "true";
"""


class DebianPackages:
    """Packages of one architecture from the sources that this machine's apt knows."""

    def __init__(self, architecture: str, state: Path, otherwise: str) -> None:
        """Reads the lists of packages into the folder `state`, which is made.

        architecture: as Debian names it (`arm64`). otherwise: what to do without apt, as a clause. Raises
        `EnvironmentProblem` where there is no apt, or the sources have no such architecture.
        """
        for program in ("apt-get", "dpkg-deb"):
            if shutil.which(program) is None:
                raise EnvironmentProblem(
                    f"{program} is not on this machine, and mindgap takes emulators and the libraries of another "
                    f"architecture from Debian's packages: {otherwise}"
                )
        self._architecture, self._state = architecture, state
        for folder in ("lists/partial", "cache/archives/partial"):
            (state / folder).mkdir(parents=True)
        (state / "status").touch()
        self._file = state / "apt.conf"
        self._file.write_text(_CONFIGURATION.format(architecture=architecture, state=state), encoding="utf-8")
        self._apt("apt-get", "-qq", "update")

    def first_known(self, names: Sequence[str]) -> str:
        """The first of the packages that the sources have. Raises `EnvironmentProblem` where they have none."""
        for name in names:
            if "Package:" in self._apt("apt-cache", "show", name, must=False):
                return name
        raise EnvironmentProblem(
            f"the package sources of this machine have none of {', '.join(names)} for {self._architecture}"
        )

    def unpack(self, names: Sequence[str], folder: Path, *, with_needed: bool) -> list[str]:
        """Downloads packages and unpacks them into a folder. Returns their file names, which hold the versions.

        with_needed: those that they depend on too. Raises `EnvironmentProblem`.
        """
        fresh = self._state / "fresh"
        fresh.mkdir()
        if with_needed:
            self._apt("apt-get", "-qq", "-y", "--download-only", "install", *names)
            archives = self._state / "cache" / "archives"
        else:
            self._apt("apt-get", "-qq", "download", *names, cwd=fresh)
            archives = fresh
        files = sorted(archives.glob("*.deb"))
        for file in files:
            _run(["dpkg-deb", "--extract", str(file), str(folder)], None, f"{file.name} cannot be unpacked")
            file.unlink()
        fresh.rmdir()
        return [file.name for file in files]

    def _apt(self, *command: str, cwd: Path | None = None, must: bool = True) -> str:
        variables = {**os.environ, "APT_CONFIG": str(self._file), "LC_ALL": "C"}
        what = f"Debian's packages for {self._architecture} cannot be had ({' '.join(command[:4])})"
        return _run(command, variables, what, cwd, must)


def _run(
    command: Sequence[str], variables: dict[str, str] | None, what: str, cwd: Path | None = None, must: bool = True
) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False, env=variables, cwd=cwd,
            timeout=_APT_S,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentProblem(f"{what}: {error}") from error
    if done.returncode and must:
        errors = [line for line in (done.stderr or done.stdout).splitlines() if line.startswith("E:")]
        raise EnvironmentProblem(f"{what}: {errors[0] if errors else f'status {done.returncode}'}")
    return done.stdout
