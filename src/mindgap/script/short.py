"""Writes a short script for a small graph: one page for a vendor, with the backend's own API only.

It prints the result of eager PyTorch, the platform's and the float64 result, and exits with status 1 while the wrong
side is further from float64 than the other. `render` writes the long script, which runs any graph.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

import numpy as np

from mindgap.graph import Arg, DType, Graph, Input, contiguous_stride, materialise_all, refs
from mindgap.script.literals import Files, expression
from mindgap.script.module_source import argument, call_target
from mindgap.script.public_calls import public_call
from mindgap.script.target import Target

Array = np.ndarray[Any, np.dtype[Any]]
Wrong = Literal["platform", "reference"]

#: Functions of the long script's parts: an input that needs one is not plain enough for a short script.
_HELPERS: Final = (
    "strided(", "unpacked(", "loaded(", "from_bits(", "uniform(", "normal(", "integers(", "permutation(", "exceptional("
)  # fmt: skip
#: dtypes that numpy, and with it the runtimes' simplest calls, does not hold.
_NOT_NUMPY: Final = ("bfloat16", "float8", "complex")
_MOST_NODES: Final = 12
_MOST_ELEMENTS: Final = 256

_RUN: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "cpu/eager": ((), """
def run(model, arguments):
    return model(*arguments)
"""),
    "cpu/jit": ((), """
def run(model, arguments):
    traced = torch.jit.trace(model, arguments, check_trace=False)
    for _ in range(3):  # TorchScript optimises after the first runs
        traced(*arguments)
    return traced(*arguments)
"""),
    "cpu/inductor": ((), """
def run(model, arguments):
    return torch.compile(model, fullgraph=True, dynamic=False)(*arguments)
"""),
    "cpu/aotinductor": ((), """
def run(model, arguments):
    package = torch._inductor.aoti_compile_and_package(torch.export.export(model, arguments))
    return torch._inductor.aoti_load_package(package)(*arguments)
"""),
    "onnxruntime/cpu": (("onnxruntime",), """
def run(model, arguments):
    program = torch.onnx.export(model, arguments, dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    feeds = {given.name: tensor.numpy() for given, tensor in zip(session.get_inputs(), arguments)}
    return [torch.as_tensor(array) for array in session.run(None, feeds)]
"""),
    "onnxruntime/cpu@opt=off": (("onnxruntime",), """
def run(model, arguments):
    program = torch.onnx.export(model, arguments, dynamo=True, verbose=False)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString(), options)
    feeds = {given.name: tensor.numpy() for given, tensor in zip(session.get_inputs(), arguments)}
    return [torch.as_tensor(array) for array in session.run(None, feeds)]
"""),
    "openvino/cpu": (("openvino",), """
def run(model, arguments):
    converted = openvino.convert_model(torch.export.export(model, arguments))
    compiled = openvino.compile_model(converted, "CPU", PROPERTIES)
    return [torch.as_tensor(np.array(array)) for array in compiled([a.numpy() for a in arguments]).values()]
"""),
    "openvino/cpu@frontend=onnx": (("openvino",), """
def run(model, arguments):
    with tempfile.TemporaryDirectory() as folder:
        torch.onnx.export(model, arguments, dynamo=True, verbose=False).save(f"{folder}/model.onnx")
        compiled = openvino.compile_model(f"{folder}/model.onnx", "CPU", PROPERTIES)
    return [torch.as_tensor(np.array(array)) for array in compiled([a.numpy() for a in arguments]).values()]
"""),
}  # fmt: skip

_COMPARE: Final = '''

def error(found, exact):
    """The largest difference from the float64 result, relative to its largest magnitude."""
    if found.shape != exact.shape:
        return float("inf")
    found, exact = found.double(), exact.double()
    if not torch.equal(found.isnan(), exact.isnan()) or not torch.equal(found.isinf(), exact.isinf()):
        return float("inf")
    finite = exact.isfinite()
    if not torch.equal(found[~finite].sign(), exact[~finite].sign()):
        return float("inf")
    size = exact[finite].abs().max() if finite.any() else torch.tensor(1.0)
    worst = (found - exact)[finite].abs().max() if finite.any() else torch.tensor(0.0)
    return float(worst / size) if size else float(worst)
'''


def short_script(
    graph: Graph, platform: Target, title: str, *, wrong: Wrong = "platform", inputs: Sequence[Array] | None = None
) -> str | None:
    """Returns the script, or None if the graph or the platform has no short form.

    `title`: the first line of its docstring, and what is wrong. `wrong`: which side is. `inputs`: the graph's inputs as
    arrays. The caller has to run it: nothing here knows that it shows the fault.
    """
    way = _way(platform)
    if way is None or graph.grad or len(graph.nodes) > _MOST_NODES:
        return None
    arrays = list(inputs) if inputs is not None else materialise_all(graph)
    graph = _with_rounded_scalars(graph)
    given = [
        _tensor(number, each, array) for number, (each, array) in enumerate(zip(graph.inputs, arrays, strict=True))
    ]
    runtime = platform.device_mode.split("/")[0]
    if None in given or (runtime != "cpu" and not _numpy_holds(graph)):
        return None
    imports, run = way
    names = [f"x{number}" for number in range(len(graph.inputs))]
    lines = [f"{name} = {text}" for name, text in zip(names, given, strict=True)]
    body = "\n".join([*lines, f"arguments = ({', '.join(names)}{',' if len(names) == 1 else ''})"])
    exact = _can_widen(graph)
    modules = sorted(
        {"sys", "platform", *(["tempfile"] if "tempfile" in run else []), *(["os"] if platform.environment else [])}
    )
    third = sorted({"torch", *imports, *(["numpy as np"] if "np." in run else [])})
    parts: list[str] = [
        f'"""{title}\n\nExit status 1: the fault is there; 0: it is gone.\n"""\n',
        "\n".join(f"import {name}" for name in modules),
        *(["from math import inf, nan"] if "inf" in body or "nan" in body else []),
        "",
        *(
            [f"os.environ.update({dict(platform.environment)!r})  # before PyTorch is imported\n"]
            if platform.environment
            else []
        ),
        "\n".join(f"import {name}" for name in third),
        "",
        *([f"PROPERTIES = {_properties(platform)!r}"] if "PROPERTIES" in run else []),
        "",
        *_model(graph, names, arrays),
        run,
        _COMPARE,
        "",
        body,
        _main(platform, wrong, exact, imports),
    ]
    return re.sub(r"\n{4,}", "\n\n\n", "\n".join(parts)).rstrip() + "\n"


def _with_rounded_scalars(graph: Graph) -> Graph:
    """Kernels of float32 and narrower dtypes round scalar arguments to float32. The float64 run must read the same."""
    if any(given.spec.dtype == "float64" for given in graph.inputs):
        return graph
    nodes = tuple(
        replace(node, args=tuple(map(_rounded, node.args)), kwargs=tuple((k, _rounded(a)) for k, a in node.kwargs))
        for node in graph.nodes
    )
    return replace(graph, nodes=nodes)


def _rounded(arg: Arg) -> Arg:
    if isinstance(arg, tuple):
        return tuple(map(_rounded, arg))
    return float(np.float32(arg)) if isinstance(arg, float) and abs(arg) < 3e38 else arg


def _way(platform: Target) -> tuple[tuple[str, ...], str] | None:
    """Returns the code that runs the platform; None if its options have no short form."""
    options = {k: v for k, v in platform.options.items() if (k, v) not in {("threads", "1"), ("export", "official")}}
    options.pop("export", None)
    if platform.device_mode == "openvino/cpu":
        options.pop("precision", None)
        if options.get("frontend") == "pytorch":
            del options["frontend"]
    if platform.device_mode.startswith("cpu/"):
        options.pop("isa", None)  # by the environment
    key = platform.device_mode + (f"@{','.join(f'{k}={v}' for k, v in sorted(options.items()))}" if options else "")
    return _RUN.get(key)


def _properties(platform: Target) -> dict[str, str]:
    precision = platform.options.get("precision", "")
    return {"INFERENCE_PRECISION_HINT": precision} if precision else {}


def _numpy_holds(graph: Graph) -> bool:
    specs = [given.spec for given in graph.inputs] + [graph.values[number] for number in graph.outputs]
    return not any(spec is not None and spec.dtype.startswith(_NOT_NUMPY) for spec in specs)


def _tensor(number: int, given: Input, array: Array) -> str | None:
    """Returns the expression of an input; None if it needs more than a line of plain PyTorch."""
    spec = given.spec
    if spec.numel > _MOST_ELEMENTS:
        return None
    if spec.stride == contiguous_stride(spec.shape) or spec.numel <= 1:
        text = expression(f"x{number}", given, array, Files())
        return None if any(helper in text for helper in _HELPERS) else text
    if spec.overlaps or 0 in spec.stride:
        return None
    plain = Input(type(spec).contiguous(spec.dtype, spec.shape), given.recipe)
    text = expression(f"x{number}", plain, array, Files())
    if any(helper in text for helper in _HELPERS):
        return None
    return f"torch.empty_strided({spec.shape}, {spec.stride}, dtype=torch.{spec.dtype}).copy_({text})"


def _model(graph: Graph, names: Sequence[str], arrays: Sequence[Array]) -> list[str]:
    values = dict(enumerate(names))
    values |= {number: f"v{number}" for number in range(len(names), len(graph.values))}
    lines = ["", "class Model(torch.nn.Module):", f"    def forward({', '.join(['self', *names])}):"]
    for index, node in enumerate(graph.nodes):
        public = public_call(graph, index, arrays)
        args = node.args if public is None else [node.args[place] for place in public.args]
        given = [argument(arg, values) for arg in args]
        given += [f"{name}={argument(arg, values)}" for name, arg in node.kwargs]
        name = f"torch.ops.{node.op}" if public is None else public.name
        first = graph.first_value[index]
        target = call_target(node, values, first) if public is None else values[first]
        text = f"        {target} = {name}({', '.join(given)})" if target else f"        {name}({', '.join(given)})"
        lines += (
            [text] if len(text) <= 118 else textwrap.wrap(text, 118, subsequent_indent=" " * 12, break_long_words=False)
        )
    returned = ", ".join(values[number] for number in graph.outputs)
    return [*lines, f"        return ({returned},)" if len(graph.outputs) == 1 else f"        return {returned}", ""]


def _can_widen(graph: Graph) -> bool:
    """Whether the program computes in float64 when its float operands are float64: no argument names a dtype."""
    named = any(isinstance(arg, DType) for node in graph.nodes for arg in (*node.args, *(a for _, a in node.kwargs)))
    floats = any(given.spec.kind == "float" for given in graph.inputs)
    read = {value for node in graph.nodes for arg in node.args for value in refs(arg)}
    return not named and floats and bool(read)


def _main(platform: Target, wrong: Wrong, exact: bool, imports: Sequence[str]) -> str:
    versions = ", ".join(f'"{name}", {name}.__version__' for name in ("torch", *imports))
    wide = "[a.double() if a.is_floating_point() else a for a in arguments]"
    lines = [
        "",
        f"print({versions}, platform.machine())",
        "expected = Model()(*[a.clone() for a in arguments])",
        f"exact = Model()(*{wide})  # in float64" if exact else "exact = expected",
        "try:",
        "    actual = run(Model().eval(), arguments)",
        "except Exception as problem:",
        f'    print("{platform.name} fails:", type(problem).__name__, str(problem)[-2000:])',
        "    sys.exit(1)",
        "found = False",
        "for number, (a, e, x) in enumerate(zip(actual, expected, exact, strict=True)):",
        '    print(f"output {number}:")',
        '    print("  eager   ", e.dtype, e)',
        f'    print("  {platform.name}", a.dtype, a)',
        '    print("  float64 ", x)',
    ]
    mine, other = ("a", "e") if wrong == "platform" else ("e", "a")
    lines += [
        "    eps = torch.finfo(e.dtype).eps if e.dtype.is_floating_point else 0.0",
        f"    found |= a.dtype != e.dtype or error({mine}, x) > 8 * max(error({other}, x), eps)",
        f'print("{"wrong" if wrong == "platform" else "eager PyTorch is wrong"}" if found else "right")',
        "sys.exit(found)",
    ]
    return "\n".join(lines)
