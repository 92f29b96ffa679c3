"""Private names of PyTorch are used in `mindgap.aten.torch_private` and nowhere else."""

from __future__ import annotations

import ast
from pathlib import Path

import mindgap

SOURCES = Path(mindgap.__file__).parent

#: What scripts paste: PyTorch documents AOTInductor's functions under these names, and a script imports no mindgap.
PASTED = {"platforms/pytorch/run.py": {"torch._inductor.aoti_compile_and_package", "torch._inductor.aoti_load_package"}}


def is_private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def dotted(node: ast.expr) -> list[str]:
    """The names of `a.b.c`, or nothing if the expression is not such a chain."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [*reversed([*names, node.id])] if isinstance(node, ast.Name) else []


def private_uses(source: str) -> set[tuple[int, str]]:
    """Each (line, dotted name) that is private to torch. Operators (`torch.ops.aten._softmax`) are public names."""
    tree = ast.parse(source)
    bound: dict[str, str] = {}
    uses: set[tuple[int, str]] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "torch":
                    bound[alias.asname or "torch"] = alias.name if alias.asname else "torch"
                    if any(is_private(part) for part in alias.name.split(".")):
                        uses.add((node.lineno, alias.name))
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").split(".")[0] == "torch":
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                bound[alias.asname or alias.name] = full
                if any(is_private(part) for part in full.split(".")):
                    uses.add((node.lineno, full))
    for node in ast.walk(tree):  # `library: Any = torch` is a name for torch too
        value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(value, ast.Name) and value.id in bound and isinstance(target, ast.Name):
            bound[target.id] = bound[value.id]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module") and node.args:
            name = str(getattr(node.args[0], "value", ""))
            if name.split(".")[0] == "torch" and any(is_private(part) for part in name.split(".")):
                uses.add((node.lineno, name))
    for node in ast.walk(tree):
        names = dotted(node) if isinstance(node, ast.Attribute) else []
        if not names or names[0] not in bound:
            continue
        full = [*bound[names[0]].split("."), *names[1:]]
        if full[:2] != ["torch", "ops"] and any(is_private(name) for name in names[1:]):
            uses.add((node.lineno, ".".join(full)))
    return uses


def test_no_private_use_elsewhere() -> None:
    using = {
        str(path.relative_to(SOURCES)): uses
        for path in sorted(SOURCES.rglob("*.py"))
        if (uses := private_uses(path.read_text(encoding="utf-8")))
    }
    outside = {
        name: sorted(uses)
        for name, uses in using.items()
        if not name.startswith("aten/torch_private/")
        and not {used for _, used in uses} <= {"torch._inductor", *PASTED.get(name, ())}
    }
    assert not outside, f"move these uses to mindgap.aten.torch_private: {outside}"


def test_the_list_of_pasted_names_holds_no_file_that_is_clean() -> None:
    for name, allowed in PASTED.items():
        used = {each for _, each in private_uses((SOURCES / name).read_text(encoding="utf-8"))}
        assert allowed <= used, f"take these out of PASTED: {name}: {sorted(allowed - used)}"


def test_each_form_of_private_use_is_found() -> None:
    found = {
        "import torch\ntorch._C._get_tracing_state()": "torch._C",
        "from torch._subclasses import FakeTensorMode": "torch._subclasses.FakeTensorMode",
        "import torch._inductor.config": "torch._inductor.config",
        "from torch.fx import node\nnode._x": "torch.fx.node._x",
        "from torch import Tensor\nTensor._make_subclass": "torch.Tensor._make_subclass",
        "import torch\nlibrary: Any = torch\nlibrary._C": "torch._C",
        "import importlib\nimportlib.import_module('torch._C._functorch')": "torch._C._functorch",
        "def f():\n    from torch.testing._internal import common": "torch.testing._internal.common",
    }
    for source, name in found.items():
        assert name in {use for _, use in private_uses(source)}, source
    for source in ("import torch\ntorch.ops.aten._softmax", "import torch\ntorch.__version__", "import os\nos._exit"):
        assert not private_uses(source), source
