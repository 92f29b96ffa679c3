"""Runs a model on both sides and in float64, compares, prints, and ends with one line of JSON."""

# pyright: basic
# (torch is typed in parts only)

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

import torch

from script.parts.compare import compared, matches, show, strict
from script.parts.float64 import Call, Float64, Watch, default_dtype, first_line
from script.parts.tensors import checksum, copied, wide_dtype, widened

#: Calls a program with arguments: (program, arguments) -> outputs.
Invoke = Callable[[Any, Sequence[torch.Tensor]], list[torch.Tensor]]
#: Runs a model: (model, arguments, options, on_stage, invoke) -> outputs.
Path = Callable[
    [torch.nn.Module, Sequence[torch.Tensor], dict[str, str], Callable[[str], None], Invoke], list[torch.Tensor]
]


@dataclass
class Side:
    """A platform: name, options, environment variables, and the function that runs a model (None: unknown)."""

    name: str
    options: dict[str, str]
    environment: dict[str, str]
    path: Path | None


@dataclass
class ScriptProgram:
    """A model, with each output's declared dtype and shape. `gradients`: arguments to differentiate by."""

    name: str
    model: Callable[[], torch.nn.Module]
    outputs: Sequence[tuple[str, list[int]]]
    gradients: Sequence[int] = ()


@dataclass
class ScriptCase:
    """The case that a script runs. `culprit`: the operator alone, with its node and which operands it takes."""

    name: str
    graph: str
    program: ScriptProgram
    arguments: Callable[[], Sequence[torch.Tensor]]
    inputs_sha256: str
    reference: Side
    platform: Side
    tolerances: dict[str, tuple[float, float]]
    timeout_s: float
    culprit: ScriptProgram | None = None
    culprit_node: int = -1
    culprit_operands: Sequence[int] = ()
    recorded: dict[str, Any] = field(default_factory=dict)


@dataclass
class Ran:
    """The result of one run. `stage`: the last stage that it entered."""

    status: str
    outputs: list[torch.Tensor] | None = None
    stage: str = ""
    error: str = ""
    message: str = ""
    seconds: float = 0.0

    def record(self) -> dict[str, Any]:
        fields = {"status": self.status, "stage": self.stage, "error": self.error, "message": self.message[:2000]}
        return {key: value for key, value in fields.items() if value} | {"seconds": round(self.seconds, 3)}


def main(case: ScriptCase, argv: Sequence[str] | None = None) -> int:
    """Runs the script. Returns 0 if the sides agree within tolerances, 1 if not, 2 if the reference did not run."""
    parser = argparse.ArgumentParser(description=f"{case.platform.name} against {case.reference.name}: {case.name}")
    parser.add_argument("--json", action="store_true", help="print the line of JSON only")
    parser.add_argument("--save", metavar="FILE.pt", help="write all outputs there, for torch.load")
    parser.add_argument("--no-culprit", action="store_true", help="leave the operator alone out")
    parser.add_argument(
        "--in-process", action="store_true", help="run the platform here: quicker, but no crash is survived"
    )
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--exchange", help=argparse.SUPPRESS)
    asked = parser.parse_args(argv)
    if asked.side:
        return in_child(case, asked.side, asked.exchange)
    found, saved = both_sides(case, with_culprit=not asked.no_culprit, in_process=asked.in_process)
    if asked.save:
        torch.save(saved, asked.save)
    if not asked.json:
        show_all(case, found)
    print(json.dumps(strict(found), allow_nan=False))
    return found["exit"]


def both_sides(
    case: ScriptCase, *, with_culprit: bool = True, in_process: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Runs both sides. Returns the record of the case, and all outputs. `in_process`: the platform runs here."""
    given = list(case.arguments())
    found: dict[str, Any] = {
        "format": "mindgap-script", "version": 1, "case": case.name, "graph": case.graph,
        "platform": case.platform.name, "reference": case.reference.name, "recorded": case.recorded.get("row", {}),
        "inputs_ok": checksum(all_inputs(case, given)) == case.inputs_sha256,
    }  # fmt: skip
    if not found["inputs_ok"]:
        print("THE INPUTS ARE NOT THOSE OF THE RECORDED RUN: their SHA-256 differs", file=sys.stderr)
    kept, exact, notes = in_float64(case.program, given, case.culprit_node)
    work = [(case.program, given)]
    if case.culprit is not None and kept and with_culprit:
        operands = [kept[place] for place in case.culprit_operands]
        work.append((case.culprit, operands))
    plain_reference = case.reference.path is not None and not case.reference.options
    eager = run_side(case, case.reference, work, here=plain_reference)
    other = run_side(case, case.platform, work, here=in_process)
    whole, saved = recorded(case, case.program, eager[0], other[0], exact, notes)
    found |= whole
    found["matches_recorded"] = {
        side: matches(saved[side], case.recorded.get(side)) for side in ("eager", "platform")
    }  # fmt: skip
    if len(work) > 1:
        _, exact, notes = in_float64(work[1][0], work[1][1], None)
        alone, saved["culprit"] = recorded(case, work[1][0], eager[1], other[1], exact, notes)
        found["culprit"] = {"node": case.culprit_node, "name": work[1][0].name, **alone}
    return found | {"versions": versions()}, saved


def recorded(
    case: ScriptCase, program: ScriptProgram, eager: Ran, other: Ran, exact: Ran, notes: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the record of a program on both sides, and all outputs."""
    outputs = compared(program.outputs, eager.outputs, other.outputs, exact.outputs, case.tolerances)
    differs = [output["differs"] for output in outputs if output.get("differs")]
    if other.status not in ("ok", "not_run") and eager.status == "ok":
        differs.insert(0, f"{case.platform.name} {other.status}: {other.error}")
    found = {
        "status": {"eager": eager.record(), "float64": exact.record(), "platform": other.record()},
        "not_in_float64": list(notes), "outputs": outputs, "differs": bool(differs),
        "exit": 2 if eager.status != "ok" else 1 if differs else 0,
    }  # fmt: skip
    return found, {"eager": eager.outputs, "platform": other.outputs, "float64": exact.outputs}


def run_side(
    case: ScriptCase, side: Side, work: Sequence[tuple[ScriptProgram, Sequence[torch.Tensor]]], *, here: bool
) -> list[Ran]:
    """Runs programs on one side: in this process if `here` allows it and no environment is needed, else in another
    one, where the environment takes effect and a crash or hang is reported.
    """
    if side.path is None:
        return [Ran("not_run", message=f"this script knows no way to run {side.name}") for _ in work]
    if here and not side.environment:
        return [one_run(side, program, given, lambda _: None) for program, given in work]
    found: list[Ran] = []
    with tempfile.TemporaryDirectory() as folder:
        files = [os.path.join(folder, f"{number}.pt") for number in range(len(work))]
        for file, (_, given) in zip(files, work, strict=True):
            torch.save({"given": given}, file)
        while len(found) < len(work):
            found += from_child(case, side, files[len(found) :], first=len(found))
    return found


def from_child(case: ScriptCase, side: Side, files: Sequence[str], first: int) -> list[Ran]:
    """Runs programs, whose arguments are in files, in a child process. It may die at any of them."""
    role = "reference" if side is case.reference else "platform"
    command = [
        sys.executable,
        os.path.abspath(__file__),
        "--side",
        f"{role}:{first}",
        "--exchange",
        os.pathsep.join(files),
    ]
    started = time.monotonic()
    environment, end = {**os.environ, **side.environment}, ""
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        try:
            done = subprocess.run(command, env=environment, timeout=case.timeout_s, stdout=output, stderr=output)
            if done.returncode:
                end = signal.Signals(-done.returncode).name if done.returncode < 0 else f"exit {done.returncode}"
        except subprocess.TimeoutExpired:
            end = "timeout"
        output.seek(0)
        printed = output.read()[-2000:]
    found: list[Ran] = []
    for file in files:
        answer = torch.load(file, weights_only=True)
        if "status" in answer:
            found.append(Ran(**answer))
            continue
        kind = "timeout" if end == "timeout" else "crashed"
        error = f"no answer in {case.timeout_s} s" if end == "timeout" else end or "ended without an answer"
        seconds = time.monotonic() - started
        return [*found, Ran(kind, stage=answer.get("stage", ""), error=error, message=printed, seconds=seconds)]
    return found


def in_child(case: ScriptCase, which: str, exchange: str) -> int:
    """Runs programs on one side and leaves the outputs, or the error, in their files."""
    role, _, first = which.partition(":")
    side = case.reference if role == "reference" else case.platform
    programs = [case.program, case.culprit][int(first) :]
    for program, file in zip(programs, exchange.split(os.pathsep), strict=False):
        assert program is not None
        given = torch.load(file, weights_only=True)["given"]
        ran = one_run(side, program, given, lambda at, file=file: torch.save({"stage": at}, file))
        torch.save(vars(ran), file)
    return 0


def one_run(
    side: Side, program: ScriptProgram, tensors: Sequence[torch.Tensor], on_stage: Callable[[str], None]
) -> Ran:
    """Runs one program on one side, in this process. `on_stage` is called as each stage begins."""
    ran = Ran("failed")
    started = time.monotonic()

    def stage(name: str) -> None:
        ran.stage = name
        on_stage(name)

    try:
        assert side.path is not None
        arguments = [copied(tensor) for tensor in tensors]
        outputs = side.path(program.model(), arguments, side.options, stage, invoker(program.gradients))
        ran.outputs = [plain(tensor) for tensor in declared_complex(program, outputs)]
        ran.status = "ok"
    except Exception as error:
        ran.error, ran.message = type(error).__name__, str(error)[:4000]
    ran.seconds = time.monotonic() - started
    return ran


def invoker(wanted: Sequence[int]) -> Invoke:
    """Returns how to call a program: without autograd, or with gradients by the arguments numbered in `wanted`."""

    def forward(program: Any, arguments: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        with torch.no_grad():
            return outputs_of(program(*arguments))

    def backward(program: Any, arguments: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        leaves = [a.detach().requires_grad_() if i in wanted else a for i, a in enumerate(arguments)]
        with torch.enable_grad():
            outputs = outputs_of(program(*leaves))
            roots, by = [output for output in outputs if output.requires_grad], [leaves[i] for i in wanted]
            if not roots:
                return outputs + [torch.zeros_like(leaf) for leaf in by]
            fed = [cotangent(root) for root in roots]
            return outputs + list(torch.autograd.grad(roots, by, fed, materialize_grads=True))

    return backward if wanted else forward


def outputs_of(result: Any) -> list[torch.Tensor]:
    """Returns a program's result as a list."""
    return [result] if isinstance(result, torch.Tensor) else list(result)


def cotangent(output: torch.Tensor) -> torch.Tensor:
    """Returns the gradient fed into an output: element k is (2 * (37 k mod 17) - 17) / 16."""
    index = torch.arange(output.numel())
    return ((2 * (index * 37 % 17) - 17).double() / 16).to(output.dtype).to(output.device).reshape(output.shape)


def in_float64(
    program: ScriptProgram, tensors: Sequence[torch.Tensor], keep: int | None
) -> tuple[list[torch.Tensor], Ran, list[str]]:
    """Returns the operands of call `keep`, the outputs in float64, and the operators without a float64 form."""
    watch, ran, notes = Watch(keep), Ran("failed"), list[str]()
    started = time.monotonic()
    try:
        with torch.no_grad(), watch:
            program.model()(*[copied(tensor) for tensor in tensors])
        outputs, notes = wide_run(program, tensors, watch.seen.calls)
        ran.status, ran.outputs = "ok", [plain(output) for output in outputs]
    except Exception as error:
        ran.error, ran.message = type(error).__name__, first_line(error)
    ran.seconds = time.monotonic() - started
    return watch.seen.kept, ran, notes


def wide_run(
    program: ScriptProgram, tensors: Sequence[torch.Tensor], calls: Sequence[Call]
) -> tuple[list[torch.Tensor], list[str]]:
    """Runs the program in float64."""
    model = program.model()
    for module in model.modules():
        for name, weight in [*module._buffers.items(), *module._parameters.items()]:
            if weight is not None:
                module._parameters.pop(name, None)
                module._buffers[name] = widened(weight.detach())
    mode = Float64(calls)

    def run(*arguments: torch.Tensor) -> Any:
        with default_dtype(torch.float64), mode:
            return model(*arguments)

    outputs = invoker(program.gradients)(run, [widened(tensor) for tensor in tensors])
    return [o.to(wide_dtype(o.dtype)) for o in outputs], [f"node {n}: {why}" for n, why in sorted(mode.narrow.items())]


def all_inputs(case: ScriptCase, arguments: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Returns the arguments, then the weights."""
    model = case.program.model()
    weights = {**dict(model.named_buffers()), **dict(model.named_parameters())}
    return [*arguments, *(weights[name] for name in sorted(weights))]


def declared_complex(program: ScriptProgram, outputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Restores complex outputs. ONNX has real ones with a last dimension of 2 in their place."""
    found: list[torch.Tensor] = []
    declared = [*program.outputs, *([("", [])] * len(outputs))]
    for tensor, (dtype, _) in zip(outputs, declared, strict=False):
        pairs = dtype.startswith("complex") and tensor.is_floating_point() and tensor.shape[-1:] == (2,)
        found.append(torch.view_as_complex(tensor.contiguous()) if pairs else tensor)
    return found


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """Returns contiguous values, detached from autograd."""
    return tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()


def versions() -> dict[str, str]:
    """Returns the versions of the packages in use."""
    found = {"python": platform.python_version()}
    for name in ("torch", "numpy", "onnx", "onnxscript", "onnxruntime", "openvino"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found | {"cpu": torch.backends.cpu.get_cpu_capability()}


def show_all(case: ScriptCase, record: dict[str, Any]) -> None:
    """Prints the results for people."""
    print(f"{case.name}: {case.platform.name} against {case.reference.name}")
    show_program(record)
    for side, same in record["matches_recorded"].items():
        if same is not None:
            print(f"{side}: {'the values that were recorded' if same else 'OTHER VALUES THAN WERE RECORDED'}")
    if "culprit" in record:
        print(f"\nthe culprit alone, on the operands that eager gave it: {record['culprit']['name']}")
        show_program(record["culprit"])
    print()


def show_program(record: dict[str, Any]) -> None:
    """Prints the status of each run, then its outputs."""
    for name, status in record["status"].items():
        failed = f" at {status.get('stage', '')}: {status.get('error', '')}: {status.get('message', '')[:1000]}"
        print(f"{name:<9} {status['status']}{failed if status['status'] != 'ok' else ''}")
    for note in record["not_in_float64"]:
        print(f"not in float64: {note}")
    show(record["outputs"])
