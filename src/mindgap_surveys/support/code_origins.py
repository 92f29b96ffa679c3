"""Tells which expressions of a parsed file cannot be tensors, by its imports, its classes and its assignments."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

#: Packages whose functions return no tensors. What others return may be one.
_WITHOUT_TENSORS: Final = sys.stdlib_module_names | {
    "PIL", "aim", "cv2", "datasets", "gym", "gymnasium", "hydra", "imageio", "librosa", "lightning_utilities", "loguru",
    "matplotlib", "mlflow", "networkx", "numpy", "omegaconf", "pandas", "polars", "pyarrow", "rich", "scipy", "seaborn",
    "skimage", "sklearn", "soundfile", "tensorboard", "tokenizers", "tqdm", "trimesh", "typer", "wandb", "yaml",
}  # fmt: skip
#: How names of classes end whose instances are tensors, or may be.
_TENSORS: Final = ("Tensor", "Parameter", "Buffer", "Any")
_LITERALS: Final = (ast.Constant, ast.JoinedStr, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.ListComp, ast.DictComp,
                    ast.SetComp, ast.GeneratorExp, ast.Lambda, ast.Compare, ast.BoolOp)  # fmt: skip


def imported_names(tree: ast.AST) -> dict[str, str]:
    """Returns what the names that a file imports stand for: `F` is `torch.nn.functional`. Relative ones begin with a
    dot."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                root = each.name.partition(".")[0]
                names[each.asname or root] = each.name if each.asname else root
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            names |= {each.asname or each.name: f"{module}.{each.name}" for each in node.names}
    return names


def full_name(node: ast.expr, names: Mapping[str, str]) -> str:
    """Returns `torch.nn.functional.gelu` for `F.gelu`; empty for what is no chain of names that begins with an
    import."""
    root, _, rest = _chain(node).partition(".")
    return ".".join(filter(None, [names[root], rest])) if root in names else ""


class Origins:
    """Knows what the names of a file are bound to. Scopes are not separated: a name is no tensor where none of its
    bindings in the file can be one."""

    def __init__(self, tree: ast.AST, names: Mapping[str, str]) -> None:
        self._names = names
        #: By name, or attribute of `self`: the values that are bound to it; None for one that is not known.
        self._bound: dict[str, list[ast.expr | None]] = {}
        self._classes: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                self._classes.add(node.name)
            for target, value in _bindings(node):
                self._bound.setdefault(target, []).append(value)
        #: What is known of a name. One that is being worked out counts as none, so that its other bindings decide.
        self._tensors: dict[str, bool] = {}
        self._foreign: dict[str, bool] = {}

    def may_be_tensor(self, node: ast.expr) -> bool:
        """Tells whether the value of an expression may be a tensor. A module, an instance of a class, a literal and
        what a package without tensors returns are none."""
        chain = _chain(node)
        if full_name(node, self._names) or chain in ("self", "cls") or isinstance(node, _LITERALS):
            return False
        if isinstance(node, ast.Call):
            return not self._makes_instance(node) and not self._is_foreign(node)
        if chain not in self._bound:
            return chain not in self._classes and not self._is_foreign(node)
        if chain not in self._tensors:
            self._tensors[chain] = False
            self._tensors[chain] = any(each is None or self.may_be_tensor(each) for each in self._bound[chain])
        return self._tensors[chain]

    def _makes_instance(self, node: ast.Call) -> bool:
        """Whether the call is `super()`, or of a class that is no tensor's."""
        name = (full_name(node.func, self._names) or _chain(node.func)).rpartition(".")[2]
        if name in self._classes or name == "super":
            return True
        return name[:1].isupper() and not name.isupper() and not name.endswith(_TENSORS)

    def _is_foreign(self, node: ast.expr) -> bool:
        """Whether the value comes from a package without tensors."""
        while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call, ast.Await)) and _chain(node) not in self._bound:
            node = node.func if isinstance(node, ast.Call) else node.value
        if isinstance(node, ast.BinOp):
            return self._is_foreign(node.left) and self._is_foreign(node.right)
        chain = _chain(node)
        if not chain:
            return isinstance(node, _LITERALS)
        if chain in self._names:
            return self._names[chain].partition(".")[0] in _WITHOUT_TENSORS
        if chain not in self._bound:
            return chain == "open"
        if chain not in self._foreign:
            self._foreign[chain] = True
            self._foreign[chain] = all(each is not None and self._is_foreign(each) for each in self._bound[chain])
        return self._foreign[chain]


def _chain(node: ast.AST) -> str:
    """Returns `self.net.weight` for a chain of attributes of a name; empty for another expression."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _bindings(node: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    """Yields the names that a statement binds, and their values; None for a value that is not known."""
    if isinstance(node, ast.arg):
        kind = node.annotation if isinstance(node.annotation, ast.Attribute) else None
        yield node.arg, None if kind is None or kind.attr.endswith(_TENSORS) else kind
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _bound_to(target, node.value)
    elif (isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None) or isinstance(
        node, ast.AugAssign
    ):
        yield from _bound_to(node.target, node.value)
    elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
        yield from _bound_to(node.target, None if isinstance(node.iter, _LITERALS) else _element(node.iter))
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield from _bound_to(node.optional_vars, node.context_expr)


def _element(iterated: ast.expr) -> ast.expr | None:
    """Returns what stands for an element of what is iterated; None where built-in functions pass others' elements
    on."""
    if isinstance(iterated, ast.Call) and isinstance(iterated.func, ast.Name):
        return None
    return ast.Subscript(iterated, ast.Constant(0), ast.Load())


def _bound_to(target: ast.expr, value: ast.expr | None) -> Iterable[tuple[str, ast.expr | None]]:
    if isinstance(target, (ast.Tuple, ast.List)):
        one_each = isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts)
        for position, each in enumerate(target.elts):
            inner = value.elts[position] if one_each and isinstance(value, (ast.Tuple, ast.List)) else value
            part = inner if one_each or inner is None else _element(inner)
            yield from _bound_to(each, part)
    elif isinstance(target, ast.Starred):
        yield from _bound_to(target.value, None)
    elif chain := _chain(target):
        yield chain, value
