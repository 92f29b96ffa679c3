"""Measures the programs of `reports.toml` without mindgap: PyTorch and the runtime of the report's version.

    python benchmarks/rediscovery/alone.py numbers: exported:erfcx

Each program runs in a process of its own with the interpreter of its version. Inductor: `torch.compile` against eager
mode. ONNX Runtime: `torch.onnx.export(dynamo=True)` and a session. OpenVINO: `openvino.convert_model` of
`torch.export`, or the ONNX file. Prints how far each output is from eager mode. Programs of other runtimes are measured
by the scripts of `docs/findings`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ENVIRONMENTS = Path(os.environ.get("MINDGAP_HOME", Path.home() / ".cache" / "mindgap")) / "environments"
LIMIT_S = 300
#: Calls of a compiled function: memory that the first overwrote may be missed by a later one.
CALLS = 20


def interpreter(report: dict[str, Any]) -> str:
    try:
        own = version(report["package"]).split("+")[0]
    except PackageNotFoundError:
        own = ""
    name = f"{report['package']}-{report['version']}"
    return sys.executable if own == report["version"] else str(ENVIRONMENTS / name / "venv" / "bin" / "python")


def main(only: list[str]) -> None:
    listed = tomllib.loads((HERE / "reports.toml").read_text(encoding="utf-8"))["report"]
    rows = [row for row in listed if row["platform"].startswith(("cpu/", "onnxruntime/", "openvino/"))]
    for row in rows:
        if row["program"].startswith(tuple(only)):
            print(row["program"], row["platform"], row["version"], outcome(row), flush=True)


def outcome(row: dict[str, Any]) -> str:
    """What the version gives, or how its process ends."""
    command = [interpreter(row), __file__, "--one", json.dumps(row)]
    with tempfile.TemporaryDirectory() as folder:
        variables = {"TORCHINDUCTOR_CACHE_DIR": folder, "TORCHINDUCTOR_COMPILE_THREADS": "1", **os.environ}
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, env=variables, check=False)
    if done.returncode < 0:
        return f"killed by signal {-done.returncode}"
    lines = done.stdout.splitlines() or done.stderr.splitlines()
    return lines[-1] if lines else f"status {done.returncode}"


def one(row: dict[str, Any]) -> str:
    """Runs one program here."""
    file, _, function = row["program"].partition(":")
    spec = importlib.util.spec_from_file_location(file, HERE / "programs" / f"{file}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file] = module
    spec.loader.exec_module(module)
    make = getattr(module, function)
    right = eager(*make(), backward=row.get("backward", False))
    try:
        given = RUNS[row["platform"].partition("@")[0]](row, make)
    except Exception as problem:  # what a platform raises is the measurement
        return f"{type(problem).__name__}: {' '.join(str(problem).split())[:120]}"
    return "; ".join(distance(a, e) for a, e in zip(given, right, strict=False))


def eager(call: Any, args: tuple[Any, ...], backward: bool) -> list[Any]:
    """The outputs and the arguments after the call; with `backward` the outputs and the gradients of their sum."""
    import torch

    if not backward:
        with torch.no_grad():
            out = call(*args)
        return [*(out if isinstance(out, (tuple, list)) else [out]), *args]
    out = call(*args)
    out.sum().backward()
    return [out.detach(), *(each.grad for each in args if each.grad is not None)]


def inductor(row: dict[str, Any], make: Any) -> list[Any]:
    import torch

    call, args = make()
    compiled = torch.compile(call)
    given = eager(compiled, args, row.get("backward", False))
    if row["kind"] == "crashes":
        kept = [compiled(*make()[1]) for _ in range(CALLS) if [torch.randn(33 + n) for n in range(50)]]
        assert kept
    return given


def exported(make: Any) -> tuple[bytes, tuple[Any, ...]]:
    import torch

    call, args = make()
    program = torch.onnx.export(call.eval(), args, dynamo=True, verbose=False)
    assert program is not None
    return program.model_proto.SerializeToString(), args


def onnxruntime(row: dict[str, Any], make: Any) -> list[Any]:
    import onnxruntime
    import torch

    model, args = exported(make)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    feeds = dict(zip(names, [each.numpy() for each in args], strict=True))
    return [torch.as_tensor(each) for each in session.run(None, feeds)]


def openvino(row: dict[str, Any], make: Any) -> list[Any]:
    import openvino
    import torch

    call, args = make()
    if "frontend=onnx" in row["platform"]:
        model = openvino.Core().read_model(exported(make)[0])
    else:
        model = openvino.convert_model(torch.export.export(call.eval(), args))
    compiled = openvino.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    results = compiled([each.numpy() for each in args])
    return [torch.from_numpy(results[n]) for n in range(len(compiled.outputs))]


RUNS = {"cpu/inductor": inductor, "onnxruntime/cpu": onnxruntime, "openvino/cpu": openvino}


def distance(given: Any, right: Any) -> str:
    """How many elements differ, and by how much at most, in absolute terms and relative to the element."""
    import torch

    if given.dtype != right.dtype or given.shape != right.shape:
        return f"{given.dtype}{list(given.shape)} for {right.dtype}{list(right.shape)}"
    a, e = (each.detach().to(torch.complex128) for each in (given, right))
    off = ~((a == e) | (a.isnan() & e.isnan()))
    if not off.any():
        return "equal"
    far = (a - e).abs()[off]
    relative = (far / e.abs()[off]).max()
    return f"{int(off.sum())} of {off.numel()}, by {far.max():.3g} of {e.abs().max():.3g}, relative {relative:.3g}"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(one(json.loads(sys.argv[2])))
    else:
        main(sys.argv[1:] or [""])
