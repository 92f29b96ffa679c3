"""Writes what triggers a fault in words, by rule from which neighbours show it and which are calm."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from mindgap.aten.operators import packet_of
from mindgap.findings.reduction import variants
from mindgap.findings.reduction.reducer import Answer
from mindgap.graph import Arg, Device, DType, Graph, Layout, MemoryFormat

#: What a neighbour differs in, how, and what the check answers.
Trial = tuple[str, str, Answer]

#: Operators whose inputs may lack the dimension of the batch.
_BATCHED: Final = re.compile(r"(conv|pool|pad|norm|shuffle|fold)")


def facts_of(graph: Graph, trials: Sequence[Trial]) -> tuple[str, ...]:
    """Returns the facts that trigger the fault: those that the neighbours that show it share, and calm ones lack."""
    facts = [_rank(graph, trials), *_sizes(graph, trials), *_attributes(graph, trials), _dtype(graph, trials),
             _values(graph, trials), _layout(graph, trials), _constant(graph, trials)]  # fmt: skip
    return tuple(dict.fromkeys(fact for fact in facts if fact))


def _of(trials: Sequence[Trial], axis: str) -> tuple[list[str], list[str]]:
    """Returns the values on an axis that show the fault, and those that are calm."""
    shows = [value for name, value, answer in trials if name == axis and answer == "shows"]
    return shows, [value for name, value, answer in trials if name == axis and answer == "calm"]


def _rank(graph: Graph, trials: Sequence[Trial]) -> str:
    mine = variants.rank_of(graph)
    shown, calm = (sorted(map(int, each)) for each in _of(trials, "rank"))
    shows = sorted({mine, *shown})
    if not calm or not graph.inputs:
        return ""
    spatial = next((int(match[1]) for node in graph.nodes if (match := re.search(r"([123])d", packet_of(node.op)))
                    and _BATCHED.search(packet_of(node.op))), 0)  # fmt: skip
    if spatial and shows == [spatial + 1] and spatial + 2 in calm:
        return "input without a batch dimension"
    if len(shows) == 1:
        return f"{mine}-d input"
    if shows[0] > calm[-1]:
        return f"input of {shows[0]} dimensions or more"
    if shows[-1] < calm[0]:
        return f"input of at most {shows[-1]} dimensions" if shows[-1] > 1 else "input of at most 1 dimension"
    return f"input of {_either([str(each) for each in shows])} dimensions"


def _sizes(graph: Graph, trials: Sequence[Trial]) -> list[str]:
    shapes = [given.spec.shape for given in graph.inputs]
    shown, calm = (sorted(map(int, each)) for each in _of(trials, "size"))
    if any(0 in shape for shape in shapes) and (calm or 0 in shown) and not [size for size in shown if size]:
        return ["an empty input"] if any(calm) else []
    single = bool(shapes) and all(size == 1 for shape in shapes for size in shape) and any(shapes)
    if single and calm and not [size for size in shown if size > 1]:
        return ["dimensions of size 1"]
    if shown and [size for size in calm if size] and min(shown) > max(calm):
        return [f"sizes of {min(shown)} or more"]
    if shown and calm and shown == [0] and 0 not in calm:
        return []
    sizes: list[str] = []
    for axis, _, answer in trials:
        place = re.fullmatch(r"size of dimension (\d+) of input (\d+) from (\d+)", axis)
        if place and answer == "calm":
            where = f"dimension {place[1]}" + (f" of operand {place[2]}" if len(shapes) > 1 else "")
            sizes.append(f"{where} of size {place[3]}")
    return sizes


def _attributes(graph: Graph, trials: Sequence[Trial]) -> list[str]:
    attributes: list[str] = []
    for index, node in enumerate(graph.nodes):
        for each in variants.parameters(node):
            shows, calm = _of(trials, f"attribute {each.name} {index}")
            if not calm:
                continue
            if not each.given:
                attributes.append(f"`{each.name}={_text(each.value)}`")
                continue
            default = any(value.startswith("default ") for value in calm)
            if each.name in ("dim", "dim0", "dim1") and isinstance(each.value, int) and not default:
                attributes.append(
                    f"negative `{each.name}`" if each.value < 0 else f"`{each.name}` not counted from the end"
                )
            elif default and each.default is None:
                attributes.append(f"with `{each.name}`")
            elif default and shows:
                attributes.append(f"`{each.name}` other than {_text(each.default)}")
            else:
                attributes.append(f"`{each.name}={_text(each.value)}`")
    return attributes


def _dtype(graph: Graph, trials: Sequence[Trial]) -> str:
    shows, calm = _of(trials, "dtype")
    dtypes = [given.spec.dtype for given in graph.inputs]
    if not calm or not dtypes:
        return ""
    mine = next((dtype for dtype in dtypes if dtype in variants.FLOATS), dtypes[0])
    kind = variants.FLOATS if mine in variants.FLOATS else variants.OTHERS  # another kind is another computation
    shows, calm = ([dtype for dtype in each if dtype in kind] for each in (shows, calm))
    if not calm:
        return ""
    if not shows:
        return f"dtype {mine} only"
    return f"dtype {_either([mine, *shows])}"


def _values(graph: Graph, trials: Sequence[Trial]) -> str:
    shows, calm = _of(trials, "values")
    if "uniform" in shows or not calm:
        return ""
    special = [name for name in shows if name not in ("ones",)] or shows
    if special:
        return _either([variants.VALUES[name] for name in special])
    return "particular values" if "uniform" in calm else ""


def _layout(graph: Graph, trials: Sequence[Trial]) -> str:
    shows, calm = _of(trials, "layout")
    mine = variants.layout_of(graph)
    if not calm:
        return ""
    if mine != "contiguous":
        return f"{mine} input" if "contiguous" in calm else ""
    return "" if shows else "contiguous input"


def _constant(graph: Graph, trials: Sequence[Trial]) -> str:
    calm = [axis for axis, value, answer in trials if axis.startswith("role") and value == "input" and answer == "calm"]
    return "an operand that is a constant" if calm else ""


def right_for(trials: Sequence[Trial]) -> str:
    """Returns the calm neighbours in words: `1-d and 2-d inputs; float64`. Empty without one."""
    parts: list[str] = []
    ranks = _of(trials, "rank")[1]
    if ranks:
        parts.append(f"{_both([f'{rank}-d' for rank in ranks])} inputs")
    sizes = _of(trials, "size")[1]
    if sizes:
        parts.append(f"inputs of size {_both(sizes)}")
    parts += _of(trials, "dtype")[1]
    parts += [variants.VALUES[name] for name in _of(trials, "values")[1]]
    parts += [f"{name} inputs" for name in _of(trials, "layout")[1]]
    for axis, value, answer in trials:
        if axis.startswith("attribute ") and answer == "calm":
            parts.append(f"`{axis.split()[1]}={value.removeprefix('default ')}`")
    return "; ".join(dict.fromkeys(parts))


def _text(arg: Arg) -> str:
    if isinstance(arg, (DType, MemoryFormat, Layout)):
        return arg.name
    if isinstance(arg, Device):
        return "cpu"
    if isinstance(arg, tuple):
        return f"[{', '.join(map(_text, arg))}]"
    return f"{arg:g}" if isinstance(arg, float) else repr(arg)


def _either(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _both(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
