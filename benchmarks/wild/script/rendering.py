"""Renders a script: header, inputs, model, culprit, and the fixed parts that a platform needs."""

from __future__ import annotations

import ast
import hashlib
import io
import pprint
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from mindgap.findings.script.script_platform import ScriptPlatform
from mindgap.graph import Array, Graph, TensorSpec, digest
from script.literals import Files, expression
from script.module_source import Names, culprit_source, model_source, names_of

#: For each platform, the part with the function that runs a model, and the function's name.
_PATHS: Final = {
    "cpu/eager": ("torch_path", "run_eager"),
    "cpu/jit": ("torch_path", "run_jit"),
    "cpu/inductor": ("torch_path", "run_inductor"),
    "cpu/aotinductor": ("torch_path", "run_aotinductor"),
    "onnxruntime/cpu": ("onnx_path", "run_onnxruntime"),
    "openvino/cpu": ("openvino_path", "run_openvino"),
}
#: Calls of the drawing functions in an input's expression: the script then needs their part.
_DRAWING: Final = ("uniform(", "normal(", "integers(", "permutation(", "exceptional(")
#: (rtol, atol) by dtype: what torch.testing.assert_close allows by default, but for float64, where that is wide enough
#: for results computed in float32.
_TOLERANCES: Final = {
    "float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-10, 1e-12),
    "complex64": (1.3e-6, 1e-5), "complex128": (1e-10, 1e-12), "float8_e4m3fn": (0.125, 1e-5),
    "float8_e5m2": (0.25, 1e-5), "float8_e4m3fnuz": (0.125, 1e-5), "float8_e5m2fnuz": (0.25, 1e-5),
}  # fmt: skip
_TIMEOUT_S: Final = 300.0
_RULE: Final = "# " + "-" * 116


@dataclass(frozen=True)
class Script:
    """A script and its files. `files`: large tensors to put beside the script, by file name."""

    text: str
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])


def render(
    graph: Graph, inputs: Sequence[Array], platform: ScriptPlatform, reference: ScriptPlatform | None = None, *,
    name: str = "case", culprit: int | None = None, beside: str = "",
) -> Script:  # fmt: skip
    """Renders a script that runs the graph on the reference (default: `cpu/eager`), in float64 and on the platform.

    A reference that a script cannot run is replaced by `cpu/eager`, a platform that it cannot run is left out, and the
    script says so. `inputs`: the graph's inputs in order, as `materialise_all` gives them. `culprit`: the node that
    also runs alone. `beside`: the name of the .npz file for tensors too large for text; without one all are text.
    """
    named = reference or ScriptPlatform("cpu/eager")
    reference = named if _path(named) else ScriptPlatform("cpu/eager")
    names, files = names_of(graph), Files(beside)
    held = {**names.arguments, **names.weights}
    expressions = {i: expression(held[i], given, inputs[i], files) for i, given in enumerate(graph.inputs)}
    alone = culprit_source(graph, culprit) if culprit is not None and culprit >= 0 else None
    body = [
        _constants(graph, inputs, names),
        _arguments(names, expressions),
        model_source(graph, names, expressions),
        *([alone[0]] if alone else []),
    ]
    parts = ["tensors", *(["draws"] if any(d in e for e in expressions.values() for d in _DRAWING) else [])]
    parts += ["float64", "compare", "harness"]
    parts += dict.fromkeys(path[0] for path in map(_path, (reference, platform)) if path is not None)
    imports, pasted = _pasted(parts)
    text = "\n\n\n".join(
        [
            f"{_header(name, graph, platform, named)}\n{imports}",
            *body,
            f"{_RULE}\n# From here on scripts differ only in the parts that their platforms and inputs need.\n{_RULE}",
            *pasted,
            _main(name, graph, platform, reference, culprit, alone),
        ]
    )
    return Script(text + "\n", _written(files))


def _header(name: str, graph: Graph, platform: ScriptPlatform, reference: ScriptPlatform) -> str:
    runtime = {"onnxruntime/cpu": ", onnx, onnxscript and onnxruntime", "openvino/cpu": " and openvino"}
    needs = f"torch, numpy{runtime.get(platform.device_mode, '')}"
    known = "" if _path(platform) else (
        f"\nThis script knows no way to run {platform.name}: it runs the reference and float64 alone.\n"
    )  # fmt: skip
    if _path(reference) is None:
        known += f"\nThis script knows no way to run {reference.name}: cpu/eager stands in its place.\n"
    text = (
        f"{name}: {platform.name} against {reference.name}, {len(graph.nodes)} nodes.\n{known}\n"
        f"python FILE.py [--json] [--save OUTPUTS.pt] [--no-culprit] [--in-process]; it needs {needs}.\n"
        "It runs the model in eager mode, in float64, and on the platform by the way that its users go. It prints how\n"
        "far the two are from float64 and from each other. The last line is JSON. Exit status: 0 if they agree within\n"
        "TOLERANCES, 1 if they do not or the platform fails, 2 if eager itself fails.\n"
    )
    return '"""' + text.replace("\\", "\\\\").replace('"""', "'''") + '"""\n'


def _constants(graph: Graph, inputs: Sequence[Array], names: Names) -> str:
    tolerances = pprint.pformat(_used_tolerances(graph), width=110, sort_dicts=False)
    found = (
        "#: (rtol, atol) by dtype, as in torch.testing.assert_close (narrower for float64): floats differ where\n"
        "#: |a - b| > atol + rtol * |a|. Anything else differs where it is not equal.\n"
        f"TOLERANCES = {tolerances}\n"
        f"#: Seconds that the platform may take.\nTIMEOUT_S = {_TIMEOUT_S}\n"
        "#: Of dtypes, shapes, strides and bytes of the arguments and then of the weights.\n"
        f'INPUTS_SHA256 = "{_checksum(graph, inputs, names)}"'
    )
    return f"{found}\nRECORDED = {{}}"


def _used_tolerances(graph: Graph) -> dict[str, tuple[float, float]]:
    used = {spec.dtype for spec in graph.values if spec is not None}
    return {name: pair for name, pair in _TOLERANCES.items() if name in used}


def _arguments(names: Names, expressions: Mapping[int, str]) -> str:
    lines = ["def make_arguments():", '    """The arguments of Model.forward."""']
    for index, name in names.arguments.items():
        lines += textwrap.indent(f"{name} = {expressions[index]}", "    ").split("\n")
    inside = ", ".join(names.arguments.values())
    return "\n".join([*lines, f"    return [{inside}]"])


def _main(
    name: str, graph: Graph, platform: ScriptPlatform, reference: ScriptPlatform, culprit: int | None,
    alone: tuple[str, tuple[int, ...], tuple[int, ...]] | None,
) -> str:  # fmt: skip
    outputs = _declared([graph.values[o] for o in (*graph.outputs, *graph.grad)])
    positions = {value: position for position, value in enumerate(names_of(graph).arguments)}
    gradients = [positions[value] for value in graph.grad]
    lines = [
        "CASE = ScriptCase(",
        f"    name={name!r},",
        f"    graph={digest(graph)!r},",
        f"    program=ScriptProgram({name!r}, Model, {outputs}, {gradients}),",
        "    arguments=make_arguments,",
        "    inputs_sha256=INPUTS_SHA256,",
        f"    reference={_side(reference)},",
        f"    platform={_side(platform)},",
        "    tolerances=TOLERANCES,",
        "    timeout_s=TIMEOUT_S,",
    ]
    if alone is not None and culprit is not None:
        node = graph.nodes[culprit]
        declared = _declared([node.outputs[slot] for slot in alone[2]])
        lines += [
            f"    culprit=ScriptProgram({node.op!r}, Culprit, {declared}),",
            f"    culprit_node={culprit},",
            f"    culprit_operands={list(alone[1])},",
        ]
    lines += ["    recorded=RECORDED,", ")", "", 'if __name__ == "__main__":', "    sys.exit(main(CASE))"]
    return "\n".join(lines)


def _side(target: ScriptPlatform) -> str:
    _, function = _path(target) or ("", None)
    return f"Side({target.name!r}, {dict(target.options)!r}, {dict(target.environment)!r}, {function})"


def _path(target: ScriptPlatform) -> tuple[str, str] | None:
    """Returns the part that runs the platform and the expression of the function; None if there is none."""
    return _PATHS.get(target.device_mode)


def _declared(specs: Sequence[TensorSpec | None]) -> str:
    return repr([(spec.dtype, list(spec.shape)) for spec in specs if spec is not None])


def _checksum(graph: Graph, inputs: Sequence[Array], names: Names) -> str:
    """Computes `parts.tensors.checksum` of the arguments, then of the weights in the order of their names."""
    found = hashlib.sha256()
    for index in (*names.arguments, *sorted(names.weights, key=lambda i: names.weights[i])):
        spec = graph.inputs[index].spec
        stride = spec.stride if spec.numel else ()
        found.update(f"{spec.dtype}{list(spec.shape)}{list(stride)}".encode())
        found.update(np.ascontiguousarray(inputs[index]).tobytes())
    return found.hexdigest()


def _written(files: Files) -> dict[str, bytes]:
    if not files.arrays:
        return {}
    data = io.BytesIO()
    arrays: dict[str, Any] = dict(files.arrays)
    np.savez_compressed(data, **arrays)
    return {files.name: data.getvalue()}


@cache
def _part(name: str) -> tuple[tuple[str, ...], str]:
    """Returns a part's imports from outside the parts, and its source, with the docstring as a comment."""
    text = (Path(__file__).parent / "parts" / f"{name}.py").read_text(encoding="utf-8")
    tree = ast.parse(text)
    found = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    kept = tuple(
        ast.unparse(node)
        for node in found
        if not (isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("script.", "__future__")))
    )
    lines = text.split("\n")[found[-1].end_lineno :]
    about = textwrap.fill(ast.get_docstring(tree) or name, 114)
    return kept, f"{textwrap.indent(about, '# ')}\n\n" + "\n".join(lines).strip()


def _pasted(parts: Sequence[str]) -> tuple[str, list[str]]:
    """Returns the sorted import statements of the parts, and their sources."""
    imports: set[str] = {"from math import inf, nan"}
    sources: list[str] = []
    for name in parts:
        found, source = _part(name)
        imports.update(found)
        sources.append(source)
    merged = _merged(imports)
    return "\n".join(["from __future__ import annotations", "", *merged]), sources


def _merged(imports: set[str]) -> list[str]:
    """Merges imports from one module into one statement, plain imports first."""
    plain = sorted(line for line in imports if line.startswith("import "))
    named: dict[str, set[str]] = {}
    for line in imports:
        if line.startswith("from "):
            module, _, names = line.removeprefix("from ").partition(" import ")
            named.setdefault(module, set()).update(name.strip() for name in names.split(","))
    return [*plain, *(f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(named.items()))]
