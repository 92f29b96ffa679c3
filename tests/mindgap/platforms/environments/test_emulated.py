"""Environments on emulated processors: what is refused before anything is downloaded, and one that exists."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from mindgap.cli.app import main
from mindgap.graph import Constant, Graph, Input, Node, Ref, TensorSpec
from mindgap.own_path.client import OwnPathClient
from mindgap.platforms.environment_process import described, probed
from mindgap.platforms.environments import EnvironmentProblem, environments, find
from mindgap.platforms.environments.emulated import (
    arithmetic_words,
    create_emulated,
    known_arithmetic,
    start_programs_by,
    write_identity,
)
from mindgap.platforms.environments.emulation import PROCESSOR, Emulation, processors
from mindgap.platforms.environments.environment import Environment
from mindgap.platforms.host import cpu_flags, cpu_name
from mindgap.platforms.listing import find_recipe, platform_info, requirements_elsewhere
from mindgap.platforms.name import parse
from mindgap.platforms.other_environment import BackendInEnvironment
from mindgap.platforms.protocol import Availability
from mindgap.platforms.pytorch.device.availability import compiler_present
from mindgap.platforms.registry import places, registered
from mindgap.platforms.script_runner import ScriptRunner
from mindgap.run.message import WorkerFailed
from mindgap.run.outcome import Job
from mindgap.run.pool import WorkerPool
from mindgap.run.process import RequestLimits
from mindgap.run.worker_client import WorkerClient, WorkerStart

EMULATION = Emulation("aarch64", "cortex-a72", "/opt/qemu-aarch64-static", "7.2.22", ("sve", "pcid"), "/opt/a root")
#: A program that answers what the emulators do, and starts the program that it is given.
PRETENDED = """#!/bin/bash
case "$*" in
    --version) echo "qemu-x86_64 version 9.9.9 (a pretence)"; exit;;
    "-cpu help") printf 'Available CPUs:\\nx86 Haswell    (alias)\\nx86 Nehalem    old\\n\\nRecognized CPUID flags:\\n  avx\\n'; exit;;
esac
case "$2" in
    Haswell) echo "warning: TCG doesn't support requested feature: CPUID.07H:EBX.avx512f [bit 16]" >&2;;
esac
while [ "${1#-}" != "$1" ]; do [ "$1" = -0 ] && called="$2"; shift 2; done
exec -a "${called:-$1}" "$@"
"""  # noqa: E501


@pytest.fixture
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINDGAP_HOME", str(tmp_path / "home"))


def test_the_interpreter_is_a_script_that_starts_the_emulator(tmp_path: Path) -> None:
    script = tmp_path / "python"
    EMULATION.write_starter(script, "/opt/a root/usr/bin/python3.11")
    text = script.read_text()
    assert script.stat().st_mode & 0o111
    assert "exec /opt/qemu-aarch64-static -cpu cortex-a72,-sve,-pcid -L '/opt/a root' -0" in text
    assert f"{PROCESSOR}='cortex-a72 without sve, aarch64, emulated by qemu-aarch64 7.2.22'" in text


def test_an_architecture_without_an_emulator_is_refused_and_one_with_it_is_not(tmp_path: Path) -> None:
    foreign = tmp_path / "python"
    answer = {"python": "3.11.2", "implementation": "CPython", "machine": "riscv64", "prefix": "/", "missing": []}
    foreign.write_text(f"#!/bin/sh\necho '{json.dumps(answer)}'\n")
    foreign.chmod(0o755)
    plain = Environment("rv", str(foreign))
    with pytest.raises(EnvironmentProblem, match=r"built for riscv64, this machine is .*--arch riscv64"):
        plain.check()
    assert replace(plain, emulation=replace(EMULATION, machine="riscv64")).check().machine == "riscv64"
    with pytest.raises(EnvironmentProblem, match="built for riscv64, its emulator is for aarch64"):
        replace(plain, emulation=EMULATION).check()


@pytest.mark.usefixtures("_own_home")
def test_the_record_keeps_the_emulation() -> None:
    kept = Environment("a72", sys.executable, ("torch==2.9.1",), created=True, emulation=EMULATION)
    kept.folder.mkdir(parents=True)
    kept.save()
    assert find("a72") == kept and environments() == [kept]
    assert kept.slower > 1 and replace(kept, emulation=None).slower == 1


@pytest.mark.usefixtures("_own_home")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["arm64", "--python", sys.executable], "do not go with an emulated processor"),
        (["mine", "--arch", "vax"], "no recipe for the architecture vax: mindgap makes environments of aarch64"),
        (["mine", "--arch", platform.machine()], "--cpu names the processor to emulate"),
    ],
)
def test_what_cannot_be_made_is_refused(arguments: list[str], message: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["env", "create", *arguments]) == 2
    err = capfd.readouterr().err
    assert message in err and len(err.splitlines()) == 1


@pytest.mark.usefixtures("_own_home")
def test_without_apt_the_message_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        EnvironmentProblem, match=r"apt-get is not on this machine.*run mindgap in a container of Debian"
    ):
        create_emulated("arm64", (), None, None, lambda line: None)
    with pytest.raises(EnvironmentProblem, match=r"apt-get is not on .*the one file qemu-.* of any system on the PATH"):
        create_emulated("mine", (), None, "Haswell", lambda line: None)
    assert environments() == []


@pytest.mark.nightly  # five seconds on an idle machine: it checks the arithmetic
@pytest.mark.usefixtures("_own_home")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the pretended emulator is one of x86-64")
def test_a_processor_of_this_architecture(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The emulator is pretended: it starts the program itself. All else is real, the check of arithmetic too."""
    emulator = tmp_path / "qemu-x86_64-static"
    emulator.write_text(PRETENDED)
    emulator.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert processors(str(emulator)) == ["Haswell", "Nehalem"]
    with pytest.raises(EnvironmentProblem, match="knows no processor Haswel: did you mean Haswell"):
        create_emulated("other", (), None, "Haswel", lambda line: None)
    made = create_emulated("haswell", (), None, "Haswell", lambda line: None)
    assert made == find("haswell") and made.layered and made.emulation is not None
    assert made.emulation.without == ("avx512f",) and made.emulation.version == "9.9.9"
    assert made.facts().prefix == str(made.folder / "venv")
    found = known_arithmetic(made)
    assert len(found) == 31 and not any(each.wrong for each in found)
    assert arithmetic_words(found).endswith(f"{len(found)} of {len(found)} exact on 1,048,576 values each")


def test_an_emulated_arm_processor_has_the_files_that_linux_has_of_a_real_one(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho {0x410FD083} {0b100011111011}\n")
    python.chmod(0o755)
    write_identity(tmp_path / "root", python)
    told = (tmp_path / "root" / "proc" / "cpuinfo").read_text().split("\n\n")[0]
    for line in (
        "processor\t: 0",
        "Features\t: fp asimd aes pmull sha1 sha2 crc32 cpuid",
        "CPU implementer\t: 0x41",
        "CPU part\t: 0xd08",
        "CPU revision\t: 3",
    ):
        assert line in told.splitlines()
    cpu0 = tmp_path / "root" / "sys" / "devices" / "system" / "cpu" / "cpu0"
    assert (cpu0 / "regs" / "identification" / "midr_el1").read_text() == "0x00000000410fd083\n"


def test_programs_of_packages_are_started_by_the_emulator(tmp_path: Path) -> None:
    """Of these files one is a program: the others are a library, a script, and data."""
    for name, start, mode in (
        ("pnnx", b"\x7fELF", 0o755), ("lib.so.1", b"\x7fELF", 0o755), ("tool", b"#!/bin/sh\n", 0o755),
        ("data", b"\x7fELF", 0o644),
    ):  # fmt: skip
        (tmp_path / name).write_bytes(start)
        (tmp_path / name).chmod(mode)
    start_programs_by(EMULATION, tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {"pnnx", "pnnx.aarch64", "lib.so.1", "tool", "data"}
    assert f"-0 {tmp_path}/pnnx {tmp_path}/pnnx.aarch64" in (tmp_path / "pnnx").read_text()
    assert (tmp_path / "tool").read_bytes() == b"#!/bin/sh\n"


def test_the_cross_compiler_compiles_for_the_emulated_processor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cross compiler is pretended: it prints its arguments."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    EMULATION.write_starter(tmp_path / "python", "/opt/a root/usr/bin/python3.11")
    EMULATION.write_compiler(tmp_path)
    assert f" CXX={tmp_path}/g++ " in (tmp_path / "python").read_text()
    (tmp_path / "aarch64-linux-gnu-g++").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "aarch64-linux-gnu-g++").chmod(0o755)
    done = subprocess.run(
        [tmp_path / "g++", "-O3", "-march=native", "a b.cpp"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "-O3 -mcpu=cortex-a72 a b.cpp -idirafter /opt/a root/usr/include\n"


def test_without_a_cross_compiler_the_message_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("MINDGAP_FOREIGN_ARCHITECTURE", "1")
    found = compiler_present()
    assert not found.available and f"apt-get install g++-{platform.machine()}-linux-gnu" in found.reason


def test_a_process_on_an_emulated_processor_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    class Present:
        def probe(self) -> Availability:
            return Availability(True, versions={"torch": "2.9.1"})

    assert "execution" not in described()
    monkeypatch.setenv(PROCESSOR, EMULATION.words)
    assert described()["execution"] == "emulated"
    assert cpu_name() == EMULATION.words and cpu_flags() == []
    found = probed(Present(), "haswell", layered=True)  # type: ignore[arg-type]
    assert found.available and found.execution == "emulated" and found.hardware == EMULATION.words


def test_the_recipe_of_arm64() -> None:
    recipe = find_recipe("arm64")
    assert (recipe.machine, recipe.processor, recipe.platforms) == ("aarch64", "cortex-a72", ())
    assert all("==" in each for each in recipe.requirements)


def test_a_runtime_on_another_architecture_takes_the_versions_of_its_recipe_or_of_mindgap() -> None:
    assert requirements_elsewhere("ncnn") == list(find_recipe("ncnn").requirements)
    assert requirements_elsewhere("openvino")[0] == f"openvino=={version('openvino')}"
    assert requirements_elsewhere("tinygrad")[1:] == [f"{name}=={version(name)}" for name in ("onnx", "onnxscript")]


@pytest.mark.usefixtures("_own_home")
def test_the_hint_for_an_environment_that_is_named_after_a_processor() -> None:
    for name, command in (
        ("haswell", "mindgap env create haswell --cpu Haswell"),
        ("skylake", "mindgap env create skylake --cpu Skylake-Client"),
        ("arm64-openvino", "mindgap env create arm64-openvino"),
        ("ort128", "mindgap env create ort128 REQUIREMENT…"),
    ):
        with pytest.raises(EnvironmentProblem, match=f"make one with {command}$"):
            find(name)


@pytest.mark.usefixtures("_own_home")
def test_a_wheel_of_another_architecture_is_named(tmp_path: Path) -> None:
    python = tmp_path / "python"
    answer = {"python": "3.11.2", "implementation": "CPython", "machine": "aarch64", "prefix": "/", "missing": []}
    python.write_text(f"#!/bin/sh\necho '{json.dumps(answer)}'\n")
    python.chmod(0o755)
    made = Environment("a72", str(python), ("ncnn",), created=True, emulation=EMULATION)
    packages = made.folder / "venv" / "lib" / "python3.11" / "site-packages"
    for name, tags in (
        ("sympy-1.14.0", ["py3-none-any"]),
        ("numpy-2.4.6", ["cp311-cp311-manylinux_2_27_aarch64", "cp311-cp311-manylinux_2_28_aarch64"]),
        ("ncnn-1.0", ["cp311-cp311-manylinux_2_28_x86_64"]),
    ):
        if name == "ncnn-1.0":
            assert made.check().machine == "aarch64"
        (packages / f"{name}.dist-info").mkdir(parents=True)
        (packages / f"{name}.dist-info" / "WHEEL").write_text("".join(f"Tag: {tag}\n" for tag in tags))
    with pytest.raises(
        EnvironmentProblem, match=r"ncnn 1\.0 is built for manylinux_2_28_x86_64, its processor is aarch64: .*remove"
    ):
        made.check()


def test_an_instruction_that_the_emulated_processor_lacks(tmp_path: Path) -> None:
    """The worker's Python kills itself, as the emulator does where it meets an instruction that it does not know."""
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nkill -ILL $$\n")
    python.chmod(0o755)
    where = Environment("a72", str(python), ("torch==2.10.0",), created=True, emulation=EMULATION)
    client = WorkerClient(WorkerStart("mindgap.run.worker:platform_service", where=where), {}, RequestLimits(30))
    with pytest.raises(WorkerFailed) as caught:
        client.ask({"kind": "run"}, (), RequestLimits(30))
    message = str(caught.value)
    assert "killed by SIGILL (an instruction that cortex-a72 or its emulator lacks; " in message
    assert "mindgap env create a72-max --arch aarch64 --cpu max 'torch==2.10.0'" in message


@pytest.mark.slow  # its Python starts slowly
@pytest.mark.parametrize(
    "platform",
    [
        "cpu/eager",
        pytest.param("cpu/jit", marks=pytest.mark.nightly),
        # The emulated Python takes minutes to import Inductor and to translate a graph (67 processor seconds alone).
        pytest.param("cpu/inductor", marks=[pytest.mark.nightly, pytest.mark.timeout(1800)]),
        pytest.param("cpu/aotinductor", marks=[pytest.mark.nightly, pytest.mark.timeout(1800)]),
    ],
)
def test_a_worker_on_arm64_differs_by_rounding_only(tmp_path: Path, platform: str) -> None:
    try:
        where = find("arm64")
    except EnvironmentProblem as problem:
        pytest.skip(str(problem))
    assert where.emulation is not None
    spec = TensorSpec.contiguous("float32", (7,))
    node = Node("aten.exp.default", (Ref(0),), (), (spec,))
    graph = Graph((Input(spec, Constant(0.7), "input"),), (node,), (1,))
    elsewhere = f"{platform}@env=arm64"
    info = platform_info(elsewhere)
    if not info.available:
        pytest.skip(info.reason)
    with WorkerPool([platform, elsewhere], tensors=tmp_path) as pool:
        here, there = (pool.run(Job(name, graph, want="outputs")) for name in (platform, elsewhere))
        facts = pool.describe(elsewhere)
    assert here.arrays is not None and there.arrays is not None, there.message
    assert abs(here.arrays[0] - there.arrays[0]).max() < 1e-6
    assert facts["execution"] == "emulated" and where.emulation.words in json.dumps(dict(facts))


def test_a_program_on_an_emulated_processor_gets_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Environment, "check", lambda *_: None)
    eager = registered("cpu/eager")
    assert eager is not None
    where = Environment("a72", sys.executable, created=True, emulation=EMULATION)
    limits: list[float] = []
    with OwnPathClient(5) as programs:
        for place in (where, replace(where, name="native", emulation=None)):
            backend = BackendInEnvironment(eager, places()["cpu/eager"], place)
            with programs._processes_of("", parse("cpu/eager"), backend, ScriptRunner("")).taken() as client:
                limits.append(client.limits.deadline_s)
    assert limits[0] == 10 * limits[1]
