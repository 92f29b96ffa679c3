"""Creates environments on emulated processors: emulator, libraries of another architecture, Python, packages."""

from __future__ import annotations

import difflib
import json
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from mindgap.platforms.arithmetic_check import OPERATIONS, ArithmeticResult, NanRule, Operation, draw, judged
from mindgap.platforms.environments.emulation import Emulation, emulator_version, processors
from mindgap.platforms.environments.environment import NEEDED, Environment, EnvironmentProblem, project_name
from mindgap.platforms.environments.foreign_packages import DEBIAN, DebianPackages
from mindgap.platforms.environments.installation import Say, has_pip, install, make_venv, new_folder, run
from mindgap.platforms.environments.recipe import EnvironmentRecipe, architecture_recipe, emulated_recipes

#: The results of the check, in an environment's folder.
_ARITHMETIC: Final = "arithmetic.json"
#: The sign of the NaN that an architecture makes of operands that are none (Arm Architecture Reference Manual,
#: FPDefaultNaN; Intel 64 and IA-32 Software Developer's Manual, volume 1, 4.8.3.7).
_DEFAULT_NAN: Final[dict[str, NanRule]] = {"aarch64": "positive", "x86_64": "negative"}
_EMULATOR_PACKAGE: Final = "qemu-user-static"
#: mindgap's own version of Python first; wheels exist for each.
_PYTHONS: Final = (f"{sys.version_info.major}.{sys.version_info.minor}", "3.11", "3.12", "3.13")
#: Debian's packages of libraries that wheels take from the system.
_LIBRARIES: Final = ("libstdc++6", "libgomp1")
#: Wheels name the oldest version of the C library that they run with, from this one on.
_OLDEST_GLIBC: Final = 17
_WITHOUT_APT: Final = (
    "run mindgap in a container of Debian or Ubuntu, or name a machine of that architecture as a host (docs/fleet.md)"
)
#: What Linux calls the bits of AT_HWCAP on Arm64, from bit 0 on (Documentation/arch/arm64/elf_hwcaps.rst).
_ARM_FEATURES: Final = (
    "fp", "asimd", "evtstrm", "aes", "pmull", "sha1", "sha2", "crc32", "atomics", "fphp", "asimdhp", "cpuid",
    "asimdrdm", "jscvt", "fcma", "lrcpc", "dcpop", "sha3", "sm3", "sm4", "asimddp", "sha512", "sve", "asimdfhm", "dit",
    "uscat", "ilrcpc", "flagm", "ssbs", "sb", "paca", "pacg",
)  # fmt: skip
#: Prints MIDR_EL1, which two instructions read (mrs x0, midr_el1; ret), and AT_HWCAP (16).
_ARM_IDENTITY: Final = """
import ctypes, mmap
code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes.fromhex("000038d5c0035fd6"))
midr = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
capabilities = ctypes.CDLL(None).getauxval
capabilities.restype = ctypes.c_ulong
print(midr(), capabilities(ctypes.c_ulong(16)))
"""
#: pip chooses wheels by its options, but reads the conditions of dependencies (`platform_machine == "x86_64"`, PEP 508)
#: for the machine and the Python that it runs on. Arguments: the machine and the Python that it is to take them for.
_PIP_FOR_ANOTHER_MACHINE: Final = """
import platform, runpy, sys
machine, python = sys.argv[1:3]
del sys.argv[1:3]
platform.machine = lambda: machine
platform.python_version = lambda: f"{python}.0"
platform.python_version_tuple = lambda: (*python.split("."), "0")
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""


def create_emulated(
    name: str, requirements: Sequence[str], machine: str | None, processor: str | None, say: Say
) -> Environment:
    """Makes an environment whose Python runs on an emulated processor.

    machine: its architecture as `platform.machine()` names it; None for that of the recipe which the name is of
    (`architecture_recipe`), else this machine's.
    processor: its model as QEMU's `-cpu` takes it; None for that of the architecture's recipe.
    requirements: what is installed, and, on another architecture, replaces what the recipe has of the same name.
    On this machine's architecture, Python and packages are mindgap's own (`layered`). Raises `EnvironmentProblem`.
    """
    here = platform.machine()
    known = emulated_recipes()
    named = architecture_recipe(name)
    machine = machine or (named.machine if named else here)
    recipe = next((each for each in known.values() if each.machine == machine), None)
    if machine != here and recipe is None:
        there = ", ".join(sorted({each.machine for each in known.values()} | {here}))
        raise EnvironmentProblem(f"no recipe for the architecture {machine}: mindgap makes environments of {there}")
    processor = processor or (recipe.processor if recipe else None)
    if processor is None:
        raise EnvironmentProblem(f"environment {name}: --cpu names the processor to emulate, such as --cpu Haswell")
    with new_folder(name) as folder:
        emulator = _emulator(folder, machine, processor, say)
        emulation = Emulation(machine, processor, str(emulator), emulator_version(str(emulator)))
        if recipe is None or machine == here:
            made = _same_architecture(name, folder, requirements, emulation, say)
        else:
            made = _other_architecture(name, folder, requirements, emulation, recipe, say)
        made.check()
        say(f"checking the arithmetic of {emulation.processor} under the emulator")
        for line in wrong_arithmetic(check_emulated_arithmetic(made)):
            say(line)
        made.save()
    return made


def check_emulated_arithmetic(where: Environment) -> list[ArithmeticResult]:
    """Runs each operation of `arithmetic_check` on the emulated processor, and keeps the results in the environment's
    folder. Raises `EnvironmentProblem` where they cannot be run."""
    assert where.emulation is not None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, operation in enumerate(OPERATIONS):
            arrays: dict[str, Any] = {str(index): each for index, each in enumerate(draw(operation))}
            arrays |= {"name": np.array(operation.name), "result": np.array(operation.result)}
            np.savez(folder / f"{number:02}.npz", **arrays)
        command = [*where.command("mindgap.platforms.environments.emulated_arithmetic"), name]
        run(command, f"environment {where.name}: the arithmetic of its emulated processor cannot be checked")
        results = [_arithmetic_result(operation, folder / f"{number:02}", where.emulation.machine)
                 for number, operation in enumerate(OPERATIONS)]  # fmt: skip
    (where.folder / _ARITHMETIC).write_text(json.dumps([asdict(each) for each in results], indent=1) + "\n")
    return results


def known_arithmetic(where: Environment) -> list[ArithmeticResult]:
    """What the last check of an emulated environment found; empty where there was none, or its file is damaged."""
    try:
        return [ArithmeticResult(**each) for each in json.loads((where.folder / _ARITHMETIC).read_text("utf-8"))]
    except (OSError, ValueError, TypeError):
        return []


def wrong_arithmetic(results: Sequence[ArithmeticResult]) -> list[str]:
    """One line for each operation that is not exact: findings that rest on it may be the emulator's."""
    return [
        f"NOT EXACT under the emulator: {each.operation}, {each.wrong} of {each.values} values: {each.example}; a "
        "finding there may be the emulator's"
        for each in results
        if each.wrong
    ]


def arithmetic_words(results: Sequence[ArithmeticResult]) -> str:
    """The check in one line: `arithmetic checked: 31 of 31 exact on 1,048,576 values each`."""
    if not results:
        return "arithmetic not checked"
    wrong, missing = (
        [each.operation for each in results if each.wrong],
        [each.operation for each in results if each.missing],
    )
    exact = len(results) - len(wrong) - len(missing)
    ran, values = len(results) - len(missing), max(each.values for each in results)
    parts = [f"arithmetic checked: {exact} of {ran} exact on {values:,} values each"]
    parts += [f"NOT exact: {', '.join(wrong)}"] if wrong else []
    parts += [f"not run: {', '.join(missing)}"] if missing else []
    return "; ".join(parts)


def _arithmetic_result(operation: Operation, file: Path, machine: str) -> ArithmeticResult:
    given, answer_file = np.load(file.with_suffix(".npz")), file.with_suffix(".npy")
    if not answer_file.exists():
        return ArithmeticResult(operation.words, missing="the processor, or mindgap for its architecture, has no code")
    operands = [given[str(index)] for index in range(operation.arity)]
    return judged(operation, operands, np.load(answer_file), _DEFAULT_NAN.get(machine, "any"))


def _emulator(folder: Path, machine: str, processor: str, say: Say) -> Path:
    """The emulator of this machine, or one from Debian's package. Raises `EnvironmentProblem` also where it does not
    know the processor."""
    program = f"qemu-{machine}-static"
    path = shutil.which(program)
    if path is None:
        say(f"downloading {_EMULATOR_PACKAGE} (63 MB)")
        here = platform.machine()
        own = f"install qemu-user-static of your system, or put the one file {program} of any system on the PATH"
        apt = DebianPackages(DEBIAN.get(here, here), folder / "apt", own if machine == here else _WITHOUT_APT)
        apt.unpack([_EMULATOR_PACKAGE], folder / "unpacked", with_needed=False)
        (folder / "unpacked" / "usr" / "bin" / program).rename(folder / program)
        for each in ("apt", "unpacked"):
            shutil.rmtree(folder / each)
        path = str(folder / program)
    models = processors(path)
    if processor not in models:
        near = difflib.get_close_matches(processor, models, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"it knows {', '.join(models[:20])}"
        raise EnvironmentProblem(f"{program} knows no processor {processor}: {hint} ({path} -cpu help lists all)")
    return Path(path)


def _same_architecture(
    name: str, folder: Path, requirements: Sequence[str], emulation: Emulation, say: Say
) -> Environment:
    """mindgap's own Python and packages, on another processor."""
    venv = folder / "venv"
    make_venv(venv, sys.executable, None, layered=True, say=say)
    python = venv / "bin" / "python"
    if requirements:
        say(f"installing {' '.join(requirements)}")
        install(str(python), requirements, None)
    emulation = replace(emulation, without=emulation.missing_features(shutil.which("true") or "/bin/true"))
    own = str(python.resolve())
    # The links `python3` and `python3.11` lead to `python`, which becomes the script.
    emulation.write_starter(python, own)
    return Environment(name, str(python), tuple(requirements), created=True, layered=True, emulation=emulation)


def _other_architecture(
    name: str, folder: Path, requirements: Sequence[str], emulation: Emulation, recipe: EnvironmentRecipe, say: Say
) -> Environment:
    """Python and its libraries from Debian's packages, and wheels of the packages that workers need."""
    root = folder / "root"
    root.mkdir()
    say(f"downloading Python and its libraries for {emulation.machine} (21 MB)")
    apt = DebianPackages(DEBIAN[emulation.machine], folder / "apt", _WITHOUT_APT)
    package = apt.first_known([f"python{version}" for version in dict.fromkeys(_PYTHONS)])
    files = apt.unpack([package, *_LIBRARIES], root, with_needed=True)
    apt.unpack([f"lib{package}-dev"], root, with_needed=False)  # headers, for what Inductor compiles
    shutil.rmtree(folder / "apt")
    emulation = replace(emulation, root=str(root))
    emulation = replace(emulation, without=emulation.missing_features(str(root / "usr" / "bin" / package)))
    venv = folder / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "pyvenv.cfg").write_text(f"home = {root / 'usr' / 'bin'}\ninclude-system-site-packages = false\n")
    emulation.write_starter(venv / "bin" / "python", str(root / "usr" / "bin" / package))
    emulation.write_compiler(venv / "bin")
    write_identity(root, venv / "bin" / "python")
    requested = {project_name(each): each for each in (*recipe.requirements, *requirements)}
    packages = venv / "lib" / package / "site-packages"
    _install_wheels(
        [*requested.values(), *(each for each in NEEDED if project_name(each) not in requested)], emulation.machine,
        package.removeprefix("python"), _glibc(files), packages, say,
    )  # fmt: skip
    start_programs_by(emulation, packages)
    python = str(venv / "bin" / "python")
    return Environment(name, python, tuple(requested.values()), created=True, emulation=emulation)


def write_identity(root: Path, python: Path) -> None:
    """Writes Linux's description of an Arm64 processor into the files of the root, where the emulator looks first.

    QEMU 7.2 shows the host's /proc/cpuinfo. ONNX Runtime's processor detection ends with SIGSEGV on that of an x86-64
    processor from 1.29 on. Raises `EnvironmentProblem`.
    """
    identity = run([str(python), "-c", _ARM_IDENTITY], f"{python} does not tell what processor it runs on")
    midr, capabilities = (int(number) for number in identity.split())
    features = [name for bit, name in enumerate(_ARM_FEATURES) if capabilities >> bit & 1]
    one = (
        f"BogoMIPS\t: 100.00\nFeatures\t: {' '.join(features)}\nCPU implementer\t: {midr >> 24:#04x}\n"
        f"CPU architecture: 8\nCPU variant\t: {midr >> 20 & 15:#x}\nCPU part\t: {midr >> 4 & 0xFFF:#05x}\n"
        f"CPU revision\t: {midr & 15}\n"
    )
    count = os.cpu_count() or 1
    files = {"proc/cpuinfo": "\n".join(f"processor\t: {number}\n{one}" for number in range(count)) + "\n"}
    cpus = "sys/devices/system/cpu"
    files |= {f"{cpus}/cpu{number}/regs/identification/midr_el1": f"{midr:#018x}\n" for number in range(count)}
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


def start_programs_by(emulation: Emulation, packages: Path) -> None:
    """Puts a script that starts the emulator in the place of each program that packages bring, such as pnnx and IREE's
    linker: this machine's kernel runs none of another architecture. The program stays next to it (`pnnx.aarch64`)."""
    for file in sorted(packages.rglob("*")):
        if ".so" in file.name or file.is_symlink() or not file.is_file() or not os.access(file, os.X_OK):
            continue
        with file.open("rb") as opened:
            if opened.read(4) != b"\x7fELF":
                continue
        program = file.with_name(f"{file.name}.{emulation.machine}")
        file.rename(program)
        emulation.write_starter(file, str(program))


def _install_wheels(wanted: Sequence[str], machine: str, python: str, glibc: int, folder: Path, say: Say) -> None:
    """Installs wheels of another architecture and what they depend on there. Raises `EnvironmentProblem`."""
    if not has_pip():
        raise EnvironmentProblem("pip is not installed beside mindgap, and only pip installs wheels of another machine")
    say(f"installing {' '.join(wanted)} for {machine}")
    tags = [f"manylinux_2_{minor}_{machine}" for minor in range(glibc, _OLDEST_GLIBC - 1, -1)]
    options = [text for tag in (*tags, f"manylinux2014_{machine}") for text in ("--platform", tag)]
    run(
        [sys.executable, "-c", _PIP_FOR_ANOTHER_MACHINE, machine, python, "install", "--quiet", "--only-binary=:all:",
         "--target", str(folder), "--python-version", python, "--implementation", "cp", *options, *wanted],
        f"{' '.join(wanted)} cannot be installed for {machine}",
    )  # fmt: skip


def _glibc(files: Sequence[str]) -> int:
    """The minor version of the C library among the files of Debian's packages (`libc6_2.36-9_arm64.deb`: 36)."""
    return next(int(name.split("_")[1].split("-")[0].split(".")[1]) for name in files if name.startswith("libc6_"))
