"""Lists the functions that translate ATen's operators in the packages of an environment: `PYTHON rule_reader.py`.

Reads sources, and imports and runs nothing of them, so that any Python 3 can run this file by itself. Prints a JSON
list of [front end, operator, function, file, digest of the function's code]. An operator is `mean` or `mean.dim`. A
package that is not installed is left out.
"""

import ast
import glob
import hashlib
import importlib.util
import json
import os
import sys

#: Front end -> patterns of its files. The first file with a rule for an operator has it.
SOURCES = {
    "torch.onnx": [
        "torch/onnx/_internal/exporter/_torchlib/ops/*.py",
        "onnxscript/function_libs/torch_lib/ops/*.py",
    ],
    "torchax": ["torchax/ops/jaten.py"],
    "litert_torch": ["litert_torch/backend/lowerings/*.py", "litert_torch/backend/lowerings/_jax_lowerings/*.py"],
    "tvm": ["tvm/relax/frontend/torch/exported_program_translator.py"],
}
#: Decorators that register a function for operators.
_REGISTERS = ("torch_op", "onnx_impl", "op", "lower")


def rules_of_file(front_end: str, file: str, text: str) -> "list[list[str]]":
    """The rules in one source file, in its order."""
    found: list[list[str]] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.name == "create_convert_map":
            found += [[front_end, op, name, file, _digest(name)] for op, name in _converters(node)]
        elif isinstance(node, ast.FunctionDef):
            code = _digest(ast.dump(node.args) + "".join(map(ast.dump, _body(node))))
            found += [[front_end, op, node.name, file, code] for op in _registered(node)]
    return found


def _registered(node: ast.FunctionDef) -> "list[str]":
    """The operators that a function's decorators register it for, those for complex numbers last."""
    found: list[str] = []
    for each in node.decorator_list:
        if isinstance(each, ast.Call) and _last_name(each.func) in _REGISTERS:
            found += [op for argument in each.args for op in _operators(argument)]
    return found


def _operators(argument: ast.expr) -> "list[str]":
    if isinstance(argument, (ast.Tuple, ast.List)):
        return [op for each in argument.elts for op in _operators(each)]
    text = argument.value if isinstance(argument, ast.Constant) else ast.unparse(argument)
    if not isinstance(text, str):
        return []
    for before in ("torch.ops.aten.", "aten::", "aten."):
        if text.startswith(before):
            return [text[len(before) :]]
    return []


def _converters(node: ast.FunctionDef) -> "list[tuple[str, str]]":
    """The entries of the dictionary that the function returns: operator, source of the converter."""
    tables = [each.value for each in ast.walk(node) if isinstance(each, ast.Return)]
    return [
        (key.value, ast.unparse(value))
        for table in tables
        if isinstance(table, ast.Dict)
        for key, value in zip(table.keys, table.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    ]


def _body(node: ast.FunctionDef) -> "list[ast.stmt]":
    return node.body[1:] if ast.get_docstring(node) is not None else node.body


def _last_name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _folder(package: str) -> str:
    """The folder that holds the package, or ""."""
    spec = importlib.util.find_spec(package)
    places = list(spec.submodule_search_locations or []) if spec is not None else []
    return os.path.dirname(places[0]) if places else ""


def main() -> None:
    found: list[list[str]] = []
    for front_end, patterns in SOURCES.items():
        for pattern in patterns:
            folder = _folder(pattern.partition("/")[0])
            for path in sorted(glob.glob(os.path.join(folder, pattern))) if folder else []:
                with open(path, encoding="utf-8") as source:
                    found += rules_of_file(front_end, os.path.relpath(path, folder), source.read())
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
