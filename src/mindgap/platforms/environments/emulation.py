"""Emulated processors: what an environment's record holds of one, and what a process that runs on one knows of it."""

from __future__ import annotations

import os
import platform
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: The value of `protocol.EXECUTION`.
EMULATED: Final = "emulated"
#: Set by the interpreter of an emulated environment: the processor in words. /proc/cpuinfo is the host's there.
PROCESSOR: Final = "MINDGAP_EMULATED_PROCESSOR"
#: Set there too; not empty where the architecture is not this machine's.
_FOREIGN: Final = "MINDGAP_FOREIGN_ARCHITECTURE"
#: In the folder of an environment's interpreter, the script that compiles for its architecture.
_COMPILER: Final = "g++"
#: An emulator translates each instruction into many: so many times the deadlines of a platform on hardware.
SLOWER: Final = 10.0
#: Models of x86-64 processors by which an environment is likely to be named, as QEMU names them.
COMMON_MODELS: Final = (
    "Nehalem", "Westmere", "SandyBridge", "IvyBridge", "Haswell", "Broadwell", "Skylake-Client", "Skylake-Server",
    "Cascadelake-Server", "Cooperlake", "Icelake-Server", "SapphireRapids", "EPYC", "EPYC-Rome", "EPYC-Milan",
)  # fmt: skip
#: Features by which libraries choose their kernels; the others are of no use to a program.
_CHOOSE_KERNELS: Final = re.compile("sse|avx|amx|fma|f16c|sve")
_HELP_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Emulation:
    """A processor that QEMU's user-mode emulator runs programs of.

    machine: its architecture, as `platform.machine()` names it there.
    processor: its model, as the emulator's `-cpu` takes it.
    emulator: the emulator's path.
    version: the emulator's version.
    without: features of that processor which the emulator lacks (`avx512f`); they are switched off.
    root: the folder with the libraries of its architecture; empty for this machine's own architecture.
    """

    machine: str
    processor: str
    emulator: str
    version: str
    without: tuple[str, ...] = ()
    root: str = ""

    @property
    def words(self) -> str:
        """The processor, its architecture and the emulator in words, for reports."""
        program = Path(self.emulator).name.removesuffix("-static")
        lacking = [name for name in self.without if _CHOOSE_KERNELS.match(name)]
        less = f" without {' '.join(lacking)}" if lacking else ""
        return f"{self.processor}{less}, {self.machine}, {EMULATED} by {program} {self.version}"

    def command(self, program: str, *arguments: str) -> list[str]:
        """The command line that runs a program of that architecture."""
        model = ",".join([self.processor, *(f"-{name}" for name in self.without)])
        root = ["-L", self.root] if self.root else []
        return [self.emulator, "-cpu", model, *root, *arguments, program]

    def missing_features(self, program: str) -> tuple[str, ...]:
        """The features of the processor that the emulator reports as missing when it starts a program."""
        printed = subprocess.run(self.command(program), capture_output=True, text=True, timeout=_HELP_S, check=False)
        return tuple(re.findall(r"doesn't support requested feature: \S+?\.([\w.-]+) \[bit", printed.stderr))

    def write_starter(self, path: Path, program: str) -> None:
        """Writes a shell script that starts a program of that architecture, and is its own name to it (for a Python,
        `sys.executable`). Programs of another architecture find the compiler of `write_compiler` in CXX."""
        command = shlex.join(self.command(program, "-0", str(path)))
        path.unlink(missing_ok=True)
        variables = f"{PROCESSOR}={shlex.quote(self.words)} {_FOREIGN}={1 if self.root else ''}"
        if self.root:
            variables += f" CXX={shlex.quote(str(path.with_name(_COMPILER)))}"
        path.write_text(f'#!/bin/sh\n{variables} exec {command} "$@"\n', encoding="utf-8")
        path.chmod(0o755)

    def write_compiler(self, folder: Path) -> None:
        """Writes a script that runs the cross compiler of that architecture, which does not know `-march=native`, as if
        on the processor. Inductor asks for that."""
        known = self.processor.startswith(("cortex-", "neoverse-", "a64fx"))  # GCC's names are QEMU's
        native = f"-mcpu={self.processor}" if known else "-march=armv8-a"
        path = folder / _COMPILER
        headers = shlex.quote(f"{self.root}/usr/include")  # Python's, of that architecture
        command = f'{cross_compiler(self.machine)} "${{@/#-march=native/{native}}}" -idirafter {headers}'
        path.write_text(f"#!/bin/bash\nexec {command}\n", encoding="utf-8")
        path.chmod(0o755)


def cross_compiler(machine: str) -> str:
    """The program of Debian that compiles C++ for another architecture."""
    return f"{machine}-linux-gnu-g++"


def emulated_processor() -> str:
    """The processor in words where this process runs on an emulated one; empty on hardware."""
    return os.environ.get(PROCESSOR, "")


def foreign_architecture() -> str:
    """The architecture of this process (`aarch64`) where an emulator runs it on a machine of another; else empty."""
    return platform.machine() if os.environ.get(_FOREIGN) else ""


def emulator_version(emulator: str) -> str:
    """The version that an emulator prints (`7.2.22`); empty where it prints none, or does not run."""
    match = re.search(r"version (\S+)", _printed(emulator, "--version"))
    return match[1] if match else ""


def processors(emulator: str) -> list[str]:
    """The models that an emulator knows."""
    # For x86-64, `x86` comes before each name, and the names of flags after all of them.
    models = _printed(emulator, "-cpu", "help").partition("\n\n")[0].splitlines()[1:]
    return [line.split()[1] if line.startswith("x86 ") else line.split()[0] for line in models if line.strip()]


def _printed(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=_HELP_S, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
