"""Writes a short script for a small graph: one page for a vendor, with the backend's own API only.

It prints the result of eager PyTorch, the platform's and, where it can be computed, the float64 result. It exits with
status 1 while the side at fault is further from float64 than the other, or fails. A script for two versions of one
platform holds what each of them gave, and runs where either is installed. `render` writes the long script, which runs
any graph.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, Literal

import numpy as np
import torch

from mindgap.aten.tape import Tape
from mindgap.aten.tensors import input_tensors, to_numpy
from mindgap.graph import (
    Arg,
    Constant,
    DType,
    Graph,
    Input,
    TensorSpec,
    contiguous_stride,
    dtype_name,
    materialise_all,
    refs,
)
from mindgap.script.literals import Files, expression
from mindgap.script.module_source import argument, call_target
from mindgap.script.numpy_boundary import boundary_source, needs_boundary
from mindgap.script.public_calls import public_call
from mindgap.script.short_error import Compare, error_source
from mindgap.script.target import Target, TwoResults
from mindgap.script.ways import properties_of, way_of

Array = np.ndarray[Any, np.dtype[Any]]
Wrong = Literal["platform", "reference", "undecided"]
#: How the platform's process ends where it raises nothing.
Ends = Literal["hangs", "crashes"]
#: The last line of a script that shows the fault; the last line of one that does not.
FAULT: Final = "FAULT"
NO_FAULT: Final = "NO FAULT"

#: The last lines of every short script.
_END: Final = (
    "", "", 'if __name__ == "__main__":', "    try:", "        status = main()", "    except Exception:",
    "        traceback.print_exc()", "        status = 2", "    sys.exit(status)",
)  # fmt: skip
#: Functions of the long script's parts: an input that needs one is not plain enough for a short script.
_HELPERS: Final = (
    "strided(", "unpacked(", "loaded(", "from_bits(", "uniform(", "normal(", "integers(", "permutation(", "exceptional("
)  # fmt: skip
#: What `run` imports itself -> the distribution whose version a script names.
_IMPORTED_IN_RUN: Final = {
    "executorch": "executorch",
    "iree.runtime": "iree-base-runtime",
    "iree.turbine": "iree-turbine",
    "litert_torch": "litert_torch",
    "ncnn": "ncnn",
    "import onnxruntime": "onnxruntime-openvino",
    "pnnx": "pnnx",
    "tinygrad": "tinygrad",
    "torchax": "torchax",
    "tvm.relax": "apache-tvm",
}
_MOST_NODES: Final = 12
_MOST_ELEMENTS: Final = 256


def short_script(
    graph: Graph, platform: Target, title: str, *, wrong: Wrong = "platform", fails: bool = False,
    public: bool = True, inputs: Sequence[Array] | None = None, ends: Ends | None = None, limit_s: float = 60.0,
    two: TwoResults | None = None, compare: Compare = "largest", held: bool = False,
) -> str | None:  # fmt: skip
    """Returns the script, or None if the graph or the platform has no short form.

    `title`: the first line of its docstring. `wrong`: the side at fault. `fails`: the platform raises an error and
    gives no wrong result. `public`: call public functions where one runs the operator. `inputs`: the graph's inputs
    as arrays. `ends`: the platform hangs or crashes: the script runs it in a process of its own, for at most `limit_s`
    seconds with its imports. `two`: the script runs the platform only, and compares with what two versions of it gave.
    `compare`: what an error is relative to; `equal`: for operators that do not round, unless the reference is wrong.
    `held`: of a failure: parameters, buffers and constants are buffers of the model, which the platform may fold, and
    no arguments; None where there are none, and for a device of PyTorch.
    The caller has to run the script: nothing here knows that it shows the fault.
    """
    way = way_of(platform)
    if way is None or graph.grad or len(graph.nodes) > _MOST_NODES:
        return None
    arrays = list(inputs) if inputs is not None else materialise_all(graph)
    graph = _with_rounded_scalars(graph, arrays)
    every = [f"x{number}" for number in range(len(graph.inputs))]
    tensors = dict(zip(every, (_tensor(*each) for each in zip(every, graph.inputs, arrays, strict=True)), strict=True))
    buffers = {name: tensors[name] or "" for name, given in zip(every, graph.inputs, strict=True)
               if held and given.role not in ("input", "random")}  # fmt: skip
    names = [name for name in every if name not in buffers]
    if held and (not buffers or not fails or platform.torch_device):
        return None
    exact = _can_widen(graph) and compare != "equal"
    if None in tensors.values() or (wrong == "reference" and not exact and not fails and two is None):
        return None
    results = None if two is None else _results(two)
    if two is not None and results is None:
        return None
    in_torch = platform.device_mode.startswith("cpu/") or bool(platform.torch_device)
    bounded = not in_torch and needs_boundary(graph)
    if bounded and (two is not None or held):
        return None
    imports, run = way
    data = "\n".join([*(f"{name} = {tensors[name]}" for name in names), *(results or ())])
    model = "\n".join(_model(graph, every, arrays, public, buffers))
    standard = ["platform", "sys", "traceback", *(["tempfile"] if "tempfile" in run else [])]
    standard += ["os", "signal", "subprocess"] if ends else []
    third = ["torch", *imports, *(["numpy as np"] if "np." in run else [])]
    environment = dict(platform.environment)
    parts = [
        _docstring(title, imports, run, platform, two),
        _imports({*standard, *(["os"] if environment else [])}),
        *(["from math import inf, nan"] if re.search(r"\b(inf|nan)\b", data + model) else []),
        "",
        *([f"os.environ.update({environment!r})  # before PyTorch is imported\n"] if environment else []),
        _imports(third),
        "",
        *([f"PROPERTIES = {properties_of(platform)!r}"] if "PROPERTIES" in run else []),
        "",
        model,
        *([boundary_source(graph, names)] if bounded else []),
        run,
        *([] if fails else [error_source(compare)]),
        "",
        data,
        "",
        _main_of_process(platform, names, imports, ends, limit_s, alone=two is not None, bounded=bounded)
        if ends
        else _main_of_version(platform, names, imports, fails=fails)
        if two is not None
        else _main(platform, wrong, names, imports, fails=fails, exact=exact, bounded=bounded),
    ]
    return re.sub(r"\n{4,}", "\n\n\n", "\n".join(parts)).rstrip() + "\n"


def _docstring(title: str, imports: Sequence[str], run: str, platform: Target, two: TwoResults | None) -> str:
    packages = ["torch", *imports]
    packages += [name for name in ("onnx", "onnxscript") if "torch.onnx" in run and name not in packages]
    packages += [package for name, package in _IMPORTED_IN_RUN.items() if name in run]
    versions = {name: _version(name) for name in packages} if platform.versions is None else platform.versions
    seen = ", ".join(f"{name} {versions[name]}".rstrip() for name in packages if name in versions)
    if two is not None:
        seen = f"{two.faulty_by}, and not with {two.expected_by}. It runs in the environment of either"
    return (
        f'"""{title}\n\nSeen with {seen}.\n'
        'Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.\n"""\n'
    )


def _version(module: str) -> str:
    """Returns the version of a module's distribution, empty if that has another name."""
    try:
        return version(module.partition(".")[0])
    except PackageNotFoundError:
        return ""


def _imports(modules: Collection[str]) -> str:
    return "\n".join(f"import {name}" for name in sorted(modules))


def _with_rounded_scalars(graph: Graph, arrays: Sequence[Array]) -> Graph:
    """Rounds scalar arguments to float32, as kernels of float32 do, so that the float64 run reads the same numbers.

    The graph is unchanged if eager PyTorch gives other bits then.
    """
    nodes = tuple(
        replace(node, args=tuple(map(_rounded, node.args)), kwargs=tuple((k, _rounded(a)) for k, a in node.kwargs))
        for node in graph.nodes
    )
    rounded = replace(graph, nodes=nodes)
    try:
        return rounded if rounded == graph or _bytes(rounded, arrays) == _bytes(graph, arrays) else graph
    except (RuntimeError, ValueError, TypeError, IndexError):  # the reference fails: there is nothing to compare
        return graph


def _bytes(graph: Graph, arrays: Sequence[Array]) -> list[bytes]:
    """The outputs' bytes, by eager PyTorch."""
    with torch.no_grad():
        tensors = input_tensors(graph, arrays)
        return [to_numpy(output).tobytes() for output in Tape(graph).run(tensors)]


def _rounded(arg: Arg) -> Arg:
    if isinstance(arg, tuple):
        return tuple(map(_rounded, arg))
    return float(np.float32(arg)) if isinstance(arg, float) and abs(arg) < 3e38 else arg


def _tensor(name: str, given: Input, array: Array) -> str | None:
    """Returns the expression of an input; None if it needs more than a line of plain PyTorch."""
    spec = given.spec
    if spec.numel > _MOST_ELEMENTS:
        return None
    if spec.stride == contiguous_stride(spec.shape) or spec.numel <= 1:
        text = expression(name, given, array, Files())
        return None if any(helper in text for helper in _HELPERS) else text
    if spec.overlaps or 0 in spec.stride:
        return None
    plain = Input(type(spec).contiguous(spec.dtype, spec.shape), given.recipe)
    text = expression(name, plain, array, Files())
    if any(helper in text for helper in _HELPERS):
        return None
    return f"torch.empty_strided({spec.shape}, {spec.stride}, dtype=torch.{spec.dtype}).copy_({text})"


def _results(two: TwoResults) -> list[str] | None:
    """The lines that hold the outputs of both versions; None if one of them needs more than plain PyTorch."""
    lines: list[str] = []
    for name, by, arrays in (("EXPECTED", two.expected_by, two.expected), ("FAULTY", two.faulty_by, two.faulty)):
        specs = [TensorSpec.contiguous(dtype_name(array.dtype), array.shape) for array in arrays]
        given = [_tensor(name, Input(spec, Constant(0.0)), a) for spec, a in zip(specs, arrays, strict=True)]
        if None in given:
            return None
        if given:
            lines += [f"# What {by} gives.", f"{name} = [", *(f"    {text}," for text in given), "]"]
    return lines


def _model(
    graph: Graph, names: Sequence[str], arrays: Sequence[Array], with_public: bool, buffers: Mapping[str, str]
) -> list[str]:
    """`buffers`: the expressions of inputs that the module holds, by name."""
    values = {number: f"self.{name}" if name in buffers else name for number, name in enumerate(names)}
    values |= {number: f"v{number}" for number in range(len(names), len(graph.values))}
    lines = ["", "class Model(torch.nn.Module):"]
    if buffers:
        lines += ["    def __init__(self):", "        super().__init__()"]
        lines += [f'        self.register_buffer("{name}", {text})' for name, text in buffers.items()]
        lines += [""]
    lines += [f"    def forward({', '.join(['self', *(name for name in names if name not in buffers)])}):"]
    for index, node in enumerate(graph.nodes):
        public = public_call(graph, index, arrays) if with_public else None
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
    floats = any(given.spec.kind in ("float", "complex") for given in graph.inputs)
    read = {value for node in graph.nodes for arg in node.args for value in refs(arg)}
    return not named and floats and bool(read)


def _main(
    platform: Target, wrong: Wrong, names: Sequence[str], imports: Sequence[str], *, fails: bool, exact: bool,
    bounded: bool,
) -> str:  # fmt: skip
    versions, fresh = _versions(imports), _fresh(names)
    lines = [
        "",
        "def main():",
        f"    print({versions}, platform.machine())",
        f"    expected = Model()(*{fresh})",
        "    try:",
        f"        actual = {_run(f'tuple({fresh})', bounded)}",
        "    except Exception as problem:",
        f'        print("{platform.name} fails:", type(problem).__name__, str(problem)[-3000:])',
        *([f'        print("{FAULT}")', "        return 1"] if fails else
          ['        print("It fails: another fault than the one that this script shows.")', "        return 2"]),
    ]  # fmt: skip
    if fails:
        lines += [
            f'    print("{platform.name} gives", actual, "eager", expected)',
            f'    print("{NO_FAULT}")',
            "    return 0",
        ]
    else:
        lines += _comparison(platform, wrong, fresh, exact)
    return "\n".join([*lines, *_END])


def _main_of_version(platform: Target, names: Sequence[str], imports: Sequence[str], *, fails: bool) -> str:
    """`main` of a script for two versions. A result shows the fault that is as far from the expected one as half of the
    way to the faulty one."""
    lines = [
        "",
        "def main():",
        f"    print({_versions(imports)}, platform.machine())",
        "    try:",
        f"        actual = run(Model().eval(), tuple({_fresh(names)}))",
        "    except Exception as problem:",
        f'        print("{platform.name} fails:", type(problem).__name__, str(problem)[-3000:])',
    ]
    if fails:
        lines += [
            f'        print("{FAULT}")',
            "        return 1",
            f'    print("{platform.name} gives", actual)',
            f'    print("{NO_FAULT}")',
            "    return 0",
        ]
        return "\n".join([*lines, *_END])
    lines += [
        '        print("It fails: another fault than the one that this script shows.")',
        "        return 2",
        "    found = False",
        "    for number, (a, e, f) in enumerate(zip(actual, EXPECTED, FAULTY, strict=True)):",
        '        print(f"output {number}:")',
        f'        print("  {platform.name}:", a.dtype, a)',
        '        print("  expected:", e.dtype, e)',
        '        print("  faulty:", f.dtype, f)',
        "        way = error(f, e)",
        "        found |= a.dtype != e.dtype or (way > 0 and error(a, e) >= way / 2)",
        f'    print("{FAULT}" if found else "{NO_FAULT}")',
        "    return int(found)",
    ]
    return "\n".join([*lines, *_END])


def _main_of_process(
    platform: Target, names: Sequence[str], imports: Sequence[str], ends: Ends, limit_s: float, *, alone: bool,
    bounded: bool,
) -> str:  # fmt: skip
    """`main` for a platform that hangs or crashes: runs this script again as a child, which runs the platform.

    `alone`: runs no eager mode."""
    hangs, fault = ends == "hangs", [f'        print("{FAULT}")', "        return 1"]
    other = ['        print("Another fault than the one that this script shows.")', "        return 2"]
    return "\n".join([
        "",
        f"LIMIT_S = {max(1, round(limit_s))}  # the platform's process is ended after so many seconds",
        "",
        "",
        "def main():",
        f"    arguments = tuple({_fresh(names)})",
        '    if sys.argv[1:] == ["run"]:',
        f"        {_run('arguments', bounded)}",
        "        return 0",
        f"    print({_versions(imports)}, platform.machine())",
        *([] if alone else ['    print("eager:", Model()(*arguments), flush=True)']),
        '    child = subprocess.Popen([sys.executable, __file__, "run"], start_new_session=True)',
        "    try:",
        "        status = child.wait(timeout=LIMIT_S)",
        "    except subprocess.TimeoutExpired:",
        "        os.killpg(child.pid, signal.SIGKILL)",
        "        child.wait()",
        f'        print(f"{platform.name} does not end within {{LIMIT_S}} s")',
        *(fault if hangs else other),
        "    if status < 0:",
        f'        print("{platform.name} ends with", signal.Signals(-status).name)',
        *(other if hangs else fault),
        f'    print("{NO_FAULT}" if status == 0 else "It fails in another way.")',
        "    return 0 if status == 0 else 2",
        *_END,
    ])  # fmt: skip


def _run(arguments: str, bounded: bool) -> str:
    """The call that runs the platform."""
    return f"declared(run(Boundary().eval(), plain({arguments})))" if bounded else f"run(Model().eval(), {arguments})"


def _versions(imports: Sequence[str]) -> str:
    names = dict.fromkeys(name.partition(".")[0] for name in ("torch", *imports))
    return ", ".join(f'"{name}", {name}.__version__' for name in names)


def _fresh(names: Sequence[str]) -> str:
    return f"[x.clone() for x in ({', '.join(names)}{',' if len(names) == 1 else ''})]"


def _comparison(platform: Target, wrong: Wrong, fresh: str, exact: bool) -> list[str]:
    """The lines of `main` that compare a result with another. A fault is an error above 16 times the other side's."""
    wide = "torch.promote_types(x.dtype, torch.float64)"
    lines: list[str] = []
    each, sides = ("a, e, x", "actual, expected, exact") if exact else ("a, e", "actual, expected")
    if exact:
        lines += [
            f"    widened = [x.to({wide}) if x.is_floating_point() or x.is_complex() else x for x in {fresh}]",
            "    exact = Model()(*widened)  # in float64",
        ]
    lines += [
        "    found = False",
        f"    for number, ({each}) in enumerate(zip({sides}, strict=True)):",
        '        print(f"output {number}:")',
        '        print("  eager:", e.dtype, e)',
        f'        print("  {platform.name}:", a.dtype, a)',
        *(['        print("  float64:", x)'] if exact else []),
        "        eps = torch.finfo(e.dtype).eps if e.is_floating_point() or e.is_complex() else 0.0",
    ]
    if wrong == "undecided" or not exact:
        lines.append("        found |= a.dtype != e.dtype or error(a, e) > 16 * eps")
    else:
        mine, other = ("a", "e") if wrong == "platform" else ("e", "a")
        lines.append(f"        found |= a.dtype != e.dtype or error({mine}, x) > 16 * max(error({other}, x), eps)")
    return [*lines, f'    print("{FAULT}" if found else "{NO_FAULT}")', "    return int(found)"]
