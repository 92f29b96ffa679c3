"""Measures what each platform gives for the programs and files of this folder, without mindgap.

    python tests/everyday/measure_truth.py [NAME…] [--again]     # what truth.json lacks, of names that begin so; or all

Each (thing, platform) runs in a process of its own, forked from one that has imported the runtimes, and builds its
arguments anew for every call. `error` is the largest difference from eager mode, relative to the largest magnitude of
the output. `noise` is the larger of how far eager mode in float64 is from it, and of how far it moves if every float
argument and parameter moves by one unit in the last place. `other` is the error with a second set of arguments, fed to
what was exported with the first: it shows values that were frozen. `second` is that of the second call of a program
that changes what it holds, without anything put back. `suite.right_of` makes a word of these, unless
`suite.DECIDED` has another with a reason.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import multiprocessing
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TRUTH = HERE / "truth.json"
PLATFORMS = ("cpu/jit", "cpu/inductor", "onnxruntime/cpu", "openvino/cpu@precision=f32")
#: Seconds for one measurement.
LIMIT = 300
CALM = 16.0

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np  # noqa: E402
import torch  # noqa: E402


def declare_operators() -> None:
    """Lets torchvision be imported where its compiled half does not fit PyTorch."""
    for compiled in (HERE, *Path(torch.__file__).parents[1].glob("torchvision/_C*.so")):
        with contextlib.suppress(OSError):
            if compiled.suffix == ".so":
                torch.ops.load_library(str(compiled))
                return
    if "torchvision::nms" in torch._C._dispatch_get_all_op_names():
        return  # this file is imported under two names
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    declare_operators.kept = library  # type: ignore[attr-defined]


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def programs() -> dict[str, Path]:
    """The names of all programs, as FILE:FUNCTION, and their files. A program is a function without parameters whose
    last statement returns several values."""
    found = {}
    for path in sorted((HERE / "programs").glob("*.py")):
        lines = path.read_text().splitlines()
        names = [line[4:-3] for line in lines if line.startswith("def ") and line.endswith("():")]
        found |= {f"{path.stem}:{name}": path for name in names if name not in NOT_PROGRAMS}
    return found


#: Functions without parameters that make parts of programs.
NOT_PROGRAMS = frozenset({"net", "picture", "rows", "vertices", "logits", "wave"})


def build(name: str, path: Path) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Returns a new program, its arguments and keyword arguments."""
    made = getattr(load(path) if path.stem not in sys.modules else sys.modules[path.stem], name.split(":")[1])()
    args = made[1][0] if isinstance(made[1], list) else made[1]
    return made[0], args, made[2] if len(made) > 2 else {}


def leaves(value: Any) -> list[Any]:
    """The leaves of a nested value, dataclasses taken apart."""
    flat = torch.utils._pytree.tree_leaves(value)
    found = []
    for leaf in flat:
        parts = vars(leaf).values() if hasattr(leaf, "__dataclass_fields__") else None
        if parts is None and type(leaf).__module__.startswith("transformers.cache"):
            parts = [each for layer in leaf.layers for each in (layer.keys, layer.values)]
        found += [each for part in parts for each in leaves(part)] if parts is not None else [leaf]
    return found


def tensors(value: Any) -> list[torch.Tensor]:
    return [leaf.detach() for leaf in leaves(value) if isinstance(leaf, torch.Tensor)]


class Flat(torch.nn.Module):
    """A program that takes its tensors one by one, and returns those of its results as a tuple."""

    def __init__(self, program: Any, args: Any, kwargs: Any) -> None:
        super().__init__()
        self.program = program
        self.numbers: set[int] = set()  # places of outputs that are no tensors; tracing makes tensors of sizes
        self.given, self.form = torch.utils._pytree.tree_flatten((args, kwargs))
        self.training = getattr(program, "training", True)
        held = [getattr(program, each, None) for each in ("func", "__self__")]
        self.held = torch.nn.ModuleList(each for each in held if isinstance(each, torch.nn.Module))

    def forward(self, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        left = iter(given)
        flat = [next(left) if isinstance(leaf, torch.Tensor) else leaf for leaf in self.given]
        args, kwargs = torch.utils._pytree.tree_unflatten(flat, self.form)
        returned = enumerate(leaves(self.program(*args, **kwargs)))
        return tuple(leaf for n, leaf in returned if isinstance(leaf, torch.Tensor) and n not in self.numbers)


def reordered(leaf: Any) -> Any:
    """A tensor with its elements reversed, floats halved; a leaf that is sorted, boolean or no tensor stays."""
    if (
        not isinstance(leaf, torch.Tensor)
        or type(leaf) is not torch.Tensor
        or leaf.numel() < 2
        or leaf.dtype == torch.bool
    ):
        return leaf
    flat = leaf.reshape(-1)
    if leaf.is_floating_point() or leaf.is_complex():
        return (flat.flip(0) * 0.5).reshape(leaf.shape)
    return leaf if bool((flat[1:] >= flat[:-1]).all()) else flat.flip(0).reshape(leaf.shape)


class Case:
    """One program, with new arguments at each call of `fresh`."""

    def __init__(self, name: str, path: Path) -> None:
        self.name, self.path, self.other, self.keeps = name, path, False, False
        self.program, self.args, self.kwargs = build(name, path)

    def fresh(self) -> tuple[Any, dict[str, Any]]:
        """Builds the arguments anew; the second set, of the same elements in another order, where `other` is set."""
        _, args, kwargs = build(self.name, self.path)
        return torch.utils._pytree.tree_map(reordered, (args, kwargs)) if self.other else (args, kwargs)

    def flat(self) -> tuple[Flat, Any]:
        module = Flat(self.program, *self.fresh())

        def given() -> tuple[torch.Tensor, ...]:
            return tuple(
                leaf for leaf in torch.utils._pytree.tree_leaves(self.fresh()) if isinstance(leaf, torch.Tensor)
            )

        return module, given


Run = Callable[[], list[torch.Tensor]]


def eager(case: Case) -> list[torch.Tensor]:
    with torch.no_grad():
        args, kwargs = case.fresh()
        return tensors(case.program(*args, **kwargs))


def compiled(case: Case) -> Run:
    program = torch.compile(case.program)

    def run() -> list[torch.Tensor]:
        args, kwargs = case.fresh()
        with torch.no_grad():
            return tensors(program(*args, **kwargs))

    return run


def traced(case: Case) -> Run:
    module, given = case.flat()
    before = {name: value.detach().clone() for name, value in module.state_dict().items() if hasattr(value, "detach")}
    with torch.no_grad():
        args, kwargs = case.fresh()
        returned = leaves(build(case.name, case.path)[0](*args, **kwargs))
        module.numbers = {n for n, leaf in enumerate(returned) if not isinstance(leaf, torch.Tensor)}
        program = torch.jit.trace(module, given(), check_trace=False)

        program.load_state_dict(before, strict=False)

    def run() -> list[torch.Tensor]:
        with torch.no_grad():
            for _ in range(1 if case.keeps else 4):  # TorchScript optimises after the first runs
                if not case.keeps:
                    program.load_state_dict(before, strict=False)
                found = tensors(program(*given()))
            return found

    return run


def in_onnxruntime(case: Case) -> Run:
    import onnxruntime

    module, given = case.flat()
    with torch.no_grad():
        program = torch.onnx.export(module, given(), dynamo=True, verbose=False)
    with tempfile.TemporaryDirectory() as folder:
        program.save(f"{folder}/model.onnx")
        session = onnxruntime.InferenceSession(f"{folder}/model.onnx")

    def run() -> list[torch.Tensor]:
        feeds = {each.name: tensor.detach().numpy() for each, tensor in zip(session.get_inputs(), given(), strict=True)}
        return [torch.as_tensor(array) for array in session.run(None, feeds)]

    return run


def in_openvino(case: Case) -> Run:
    import openvino

    module, given = case.flat()
    with torch.no_grad():
        model = openvino.convert_model(torch.export.export(module, given()))
    program = openvino.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})

    def run() -> list[torch.Tensor]:
        return [
            torch.as_tensor(np.array(array)) for array in program([each.detach().numpy() for each in given()]).values()
        ]

    return run


WAYS = dict(zip(PLATFORMS, (traced, compiled, in_onnxruntime, in_openvino), strict=True))


def distance(found: list[torch.Tensor], expected: list[torch.Tensor]) -> float | str:
    """The largest difference relative to the largest magnitude of its output, or in words what else differs."""
    if len(found) != len(expected):
        return f"{len(found)} outputs in place of {len(expected)}"
    worst = 0.0
    for one, two in zip(found, expected, strict=True):
        if one.shape != two.shape:
            return f"shape {list(one.shape)} in place of {list(two.shape)}"
        if one.dtype != two.dtype:
            return f"{one.dtype} in place of {two.dtype}"
        one, two = (each.to(torch.complex128 if each.is_complex() else torch.float64) for each in (one, two))
        if not bool((one.isfinite() == two.isfinite()).all()):
            return "NaN or infinities at other places"
        largest = two[two.isfinite()].abs().max() if bool(two.isfinite().any()) else torch.tensor(0.0)
        apart = (
            torch.where(one.isfinite() & two.isfinite(), (one - two).abs(), 0.0).max()
            if two.numel()
            else torch.tensor(0.0)
        )
        worst = max(worst, float(apart / largest) if largest > 0 else float(apart > 0))
    return worst


def noise(case: Case) -> float | str:
    """How far eager mode is from float64, and how far a unit in the last place of arguments and parameters moves it."""
    expected, worst = eager(case), 0.0
    generator = torch.Generator().manual_seed(0)
    program, args, kwargs = build(case.name, case.path)
    holds = [*program.parameters(), *program.buffers()] if isinstance(program, torch.nn.Module) else []
    for tensor in [*holds, *tensors((args, kwargs))]:
        if tensor.is_floating_point() and type(tensor.data) is torch.Tensor:
            signs = torch.randint(0, 2, tensor.shape, generator=generator) * 2 - 1
            tensor.data = tensor.data * (1 + torch.finfo(tensor.dtype).eps * signs).to(tensor.dtype)
    with torch.no_grad():
        moved = distance(tensors(program(*args, **kwargs)), expected)
    worst = max(worst, moved) if isinstance(moved, float) else worst
    try:
        program, args, kwargs = build(case.name, case.path)
        program = program.double() if isinstance(program, torch.nn.Module) else program
        args, kwargs = torch.utils._pytree.tree_map(
            lambda leaf: leaf.double() if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf,
            (args, kwargs),
        )
        torch.set_default_dtype(torch.float64)
        with torch.no_grad():
            exact = [o.to(e.dtype) for o, e in zip(tensors(program(*args, **kwargs)), expected, strict=True)]
        away = distance(exact, expected)
        worst = max(worst, away) if isinstance(away, float) else worst
    except Exception:
        pass  # a program that takes no float64 keeps the other measure
    return worst


def second_call(case: Case, expected: Case, what: str) -> float | str:
    """Compares the second call of what was exported with the second of the program: is what it keeps kept?"""
    case.keeps = True
    run = WAYS[what](case)
    run(), eager(expected)
    return distance(run(), eager(expected))


def on_others(run: Run, second: Case) -> dict[str, Any]:
    """Compares on the second set of arguments, if eager mode takes it."""
    second.other = True
    try:
        expected = eager(second)
    except Exception:
        return {}
    try:
        return {"other": distance(run(), expected)}
    except Exception as error:
        return {"other": f"raises {type(error).__name__}: {' '.join(str(error).split())[:200]}"}


def feeds_of(path: Path, moved: bool = False) -> dict[str, Any]:
    """Inputs of a model file: those in its .npz, or drawn by its declared shapes; floats moved by a unit if `moved`."""
    import onnx

    generator = np.random.default_rng(0)
    if path.with_suffix(".npz").exists():
        feeds = dict(np.load(path.with_suffix(".npz")))
    elif path.suffix == ".tflite":
        import openvino

        (given,) = openvino.Core().read_model(str(path)).inputs
        feeds = {given.any_name: (generator.random(tuple(given.shape)) * 2 - 1).astype(np.float32)}
    else:
        graph, feeds = onnx.load(path, load_external_data=False).graph, {}
        held = {each.name for each in graph.initializer}
        for each in graph.input:
            if each.name in held:
                continue
            shape = [size.dim_value if size.dim_value > 0 else 2 for size in each.type.tensor_type.shape.dim]
            dtype = onnx.helper.tensor_dtype_to_np_dtype(each.type.tensor_type.elem_type)
            drawn = generator.random(shape) * 2 - 1
            whole = np.ones(shape) if "mask" in each.name or dtype == np.bool_ else generator.integers(0, 10, shape)
            feeds[each.name] = (drawn if np.issubdtype(dtype, np.floating) else whole).astype(dtype)
    if moved:
        for name, array in feeds.items():
            if np.issubdtype(array.dtype, np.floating):
                signs = generator.integers(0, 2, array.shape) * 2 - 1
                feeds[name] = (array * (1 + np.finfo(array.dtype).eps * signs)).astype(array.dtype)
    return feeds


def session_of(path: Path, feeds: dict[str, Any], optimised: bool = True) -> list[Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options).run(None, feeds)


def file_in_openvino(path: Path, feeds: dict[str, Any]) -> list[Any]:
    import openvino

    program = openvino.compile_model(openvino.Core().read_model(str(path)), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    given = {name: array for name, array in feeds.items() if any(name in each.get_names() for each in program.inputs)}
    return [np.array(array) for array in program(given).values()]


def referee(path: Path, feeds: dict[str, Any]) -> tuple[str, list[Any]]:
    """What ONNX's reference evaluator gives, or a session without optimisations where it has no answer."""
    import onnx.reference

    if path.suffix == ".tflite":
        (x,) = feeds.values()
        return "the definition", [load(HERE / "files.py").DEFINITIONS[path.stem](x)]
    try:
        return "onnx.reference", onnx.reference.ReferenceEvaluator(str(path)).run(None, feeds)
    except Exception:
        return "onnxruntime without optimisations", session_of(path, feeds, optimised=False)


def measured_file(path: Path, what: str) -> dict[str, Any]:
    feeds = feeds_of(path)
    who, expected = referee(path, feeds)
    given = [torch.as_tensor(np.asarray(each)) for each in expected]
    if what == "eager":
        moved = referee(path, feeds_of(path, moved=True))[1]
        return {"noise": distance([torch.as_tensor(np.asarray(each)) for each in moved], given), "referee": who}
    run = {"onnxruntime/cpu": session_of, "openvino/cpu@precision=f32": file_in_openvino}[what]
    return {"error": distance([torch.as_tensor(np.asarray(each)) for each in run(path, feeds)], given)}


def measured(name: str, path: Path, what: str, send: Any) -> None:
    sys.path.insert(0, str(path.parent))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    started = time.process_time()
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if path.suffix in {".onnx", ".tflite"}:
                send.send({**measured_file(path, what), "seconds": round(time.process_time() - started, 2)})
                return
            case = Case(name, path)
            if what == "eager":
                repeats = distance(eager(Case(name, path)), eager(Case(name, path)))
                answer: Any = {"noise": noise(case), "repeats": repeats}
            else:
                run = WAYS[what](case)
                answer = {"error": distance(run(), eager(Case(name, path)))}
                if name.startswith("state:"):
                    answer["second"] = second_call(Case(name, path), Case(name, path), what)
                if what != "cpu/inductor":  # which compiles again for other arguments
                    case.other = True
                    answer |= on_others(run, Case(name, path))
    except BaseException as error:
        answer = {"failed": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
    send.send({**answer, "seconds": round(time.process_time() - started, 2)})


def measure(name: str, path: Path, what: str) -> dict[str, Any]:
    """Measures in a forked process."""
    receive, send = multiprocessing.get_context("fork").Pipe(False)
    process = multiprocessing.get_context("fork").Process(target=measured, args=(name, path, what, send))
    process.start()
    send.close()
    try:
        answer = receive.recv() if receive.poll(LIMIT) else {"failed": f"no answer in {LIMIT} s"}
    except EOFError:
        answer = {"failed": "the process died"}
    process.kill()
    process.join()
    return answer


def warm_up() -> None:
    """Loads what exporters and compilers load at their first use, so that each process need not."""
    module, args = torch.nn.Linear(2, 2).eval(), (torch.ones(1, 2),)
    with contextlib.redirect_stdout(io.StringIO()), torch.no_grad():
        torch.onnx.export(module, args, dynamo=True, verbose=False)
        __import__("openvino").convert_model(torch.export.export(module, args))
        torch.compile(module)(*args)
        torch._dynamo.reset()
    torch.distributions.Distribution.set_default_validate_args(True)  # which torch.compile has turned off


def main() -> None:
    declare_operators()
    import onnx  # noqa: F401
    import onnxruntime  # noqa: F401
    import openvino  # noqa: F401
    import transformers  # noqa: F401

    warm_up()
    again, wanted = "--again" in sys.argv, [each for each in sys.argv[1:] if not each.startswith("-")]
    chosen = {name: path for start in wanted or [""] for name, path in programs().items() if name.startswith(start)}
    if not wanted or any(each.startswith("file:") for each in wanted):
        sys.path[:0] = [str(HERE), str(HERE.parent)]
        made = load(HERE / "files.py").build_all(Path(tempfile.mkdtemp()) / "files")
        chosen |= {
            f"file:{name}": path
            for name, path in made.items()
            if not wanted or f"file:{name}".startswith(tuple(wanted))
        }
    for path in dict.fromkeys(path for path in chosen.values() if path.suffix == ".py"):
        sys.path.insert(0, str(path.parent))
        with contextlib.redirect_stdout(io.StringIO()):
            load(path)
    slow = [platform for platform in PLATFORMS if platform == "cpu/inductor"]
    for platforms in (["eager", *(each for each in PLATFORMS if each not in slow)], slow):
        for name, path in chosen.items():
            rows = {} if again and "eager" in platforms else written().get(name, {})
            for platform in platforms:
                unread = path.suffix != ".py" and platform in {"cpu/jit", "cpu/inductor"}
                unread |= path.suffix == ".tflite" and platform == "onnxruntime/cpu"
                if (platform in rows and not again) or unread or "failed" in rows.get("eager", {}):
                    continue
                rows[platform] = measure(name, path, platform)
                print(name, platform, json.dumps(rows[platform]), flush=True)
            write({**written(), name: rows})


def write(things: dict[str, Any]) -> None:
    """Writes a line for each thing, numbers with three digits."""

    def short(value: Any) -> Any:
        return float(f"{value:.3g}") if isinstance(value, float) else value[:160] if isinstance(value, str) else value

    lines = [
        f"{json.dumps(name)}: {json.dumps({each: {k: short(v) for k, v in row.items()} for each, row in rows.items()})}"
        for name, rows in sorted(things.items())
    ]
    TRUTH.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def written() -> dict[str, Any]:
    return json.loads(TRUTH.read_text()) if TRUTH.exists() else {}


if __name__ == "__main__":
    main()
