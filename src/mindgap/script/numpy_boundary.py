"""Gives a short script's program inputs and outputs of dtypes that numpy holds.

The simplest calls of runtimes take and give numpy arrays, which have no bfloat16 and no float8. Exported programs have
no complex inputs and outputs.
"""

from __future__ import annotations

from collections.abc import Sequence

from mindgap.graph import Graph

_NARROW = ("bfloat16", "float8")


def needs_boundary(graph: Graph) -> bool:
    """Whether an input or an output of the graph is bfloat16, float8 or complex."""
    specs = [given.spec for given in graph.inputs] + [graph.values[number] for number in graph.outputs]
    return any(spec is not None and spec.dtype.startswith((*_NARROW, "complex")) for spec in specs)


def boundary_source(graph: Graph, names: Sequence[str]) -> str:
    """Returns a class around `Model` that converts within the program, and the conversions on both sides of it.

    `names`: of the inputs. bfloat16 and float8 cross the boundary as float32, complex numbers as pairs of reals.
    Both conversions are exact.
    """
    given = [(name, each.spec.dtype) for name, each in zip(names, graph.inputs, strict=True)]
    specs = [graph.values[number] for number in graph.outputs]
    gave = [(f"y{place}", "" if spec is None else spec.dtype) for place, spec in enumerate(specs)]
    return "\n".join([
        "",
        "class Boundary(torch.nn.Module):",
        '    """The model with inputs and outputs of dtypes that numpy holds."""',
        "",
        f"    def forward({', '.join(['self', *names])}):",
        f"        {_tuple([name for name, _ in gave])} = Model()({', '.join(_declared(*each) for each in given)})",
        f"        return {_tuple([_plain(*each) for each in gave])}",
        "",
        "",
        "def plain(inputs):",
        f"    {_tuple(list(names))} = inputs",
        f"    return {_tuple([_plain(*each) for each in given])}",
        "",
        "",
        "def declared(outputs):",
        f"    {_tuple([name for name, _ in gave])} = outputs",
        f"    return {_tuple([_declared(*each) for each in gave])}",
        "",
    ])  # fmt: skip


def _tuple(items: list[str]) -> str:
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"


def _plain(name: str, dtype: str) -> str:
    if dtype.startswith("complex"):
        return f"torch.view_as_real({name}.resolve_conj())"
    return f"{name}.to(torch.float32)" if dtype.startswith(_NARROW) else name


def _declared(name: str, dtype: str) -> str:
    if dtype.startswith("complex"):
        return f"torch.view_as_complex({name})"
    return f"{name}.to(torch.{dtype})" if dtype.startswith(_NARROW) else name
