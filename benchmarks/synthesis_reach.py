"""Counts what the regions of pools hold, and which lines of PyTorch's compiler they reach.

    mindgap synth CATALOGUE -n 300 --nodes 12 --pool old.parquet     # by each of two versions of mindgap
    python benchmarks/synthesis_reach.py old.parquet new.parquet [--compile 300]

A column for each pool. `--compile N`: N regions, drawn by a seed, go through Inductor up to the code that it writes; no
C++ compiler runs. Lines are those of `torch/_inductor` and `torch/_decomp` that run then, without imports.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch._inductor.async_compile import AsyncCompile  # pyright: ignore[reportMissingTypeStubs]

from mindgap.aten.tensors import to_torch
from mindgap.aten.torch_private.inductor import inductor_config, reset
from mindgap.graph import Graph, GraphError, materialise, operands
from mindgap.graph.features import layout_class
from mindgap.platforms.pytorch.compilation.fx_module import to_fx
from mindgap_campaign.synth.regions.pool import RegionPool

#: Next to the widths of vectors and tiles.
BORDERS = frozenset({7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65})
COMPILER = tuple(str(Path(torch.__file__).parent / room) for room in ("_inductor", "_decomp"))


def held(pool: RegionPool) -> dict[str, int]:
    """Returns the counts of one pool, of nodes by their first operand."""
    dtypes, layouts, sizes = Counter[tuple[str, str]](), Counter[tuple[str, str]](), Counter[tuple[str, int]]()
    mixed = 0
    for region in pool:
        for node in region.graph.nodes:
            specs = [spec for value in operands(node) if (spec := region.graph.values[value]) is not None]
            if specs:
                dtypes[node.op, specs[0].dtype] += 1
                layouts[node.op, layout_class(specs[0])] += 1
                sizes.update((node.op, size) for size in {*specs[0].shape} & BORDERS)
                mixed += len({spec.dtype for spec in specs}) > 1
    few = ("int8", "uint8", "int16", "int32", "bool", "float16", "bfloat16", "complex64")
    return {
        "regions": len(pool),
        "operators": len({op for op, _ in dtypes}),
        "operator x dtype": len(dtypes),
        "operator x layout": len(layouts),
        "operator x size next to a vector": len(sizes),
        "nodes with operands of several dtypes": mixed,
        **{f"nodes on {name}": sum(count for (_, dtype), count in dtypes.items() if dtype == name) for name in few},
    }


def compiled(pool: RegionPool, count: int) -> dict[str, int]:
    """Returns how many of `count` regions Inductor writes code for, and how many of its lines they reach."""
    lines = set[tuple[str, int]]()
    numbers = random.Random(1).sample(range(len(pool)), min(count, len(pool)))
    for number in numbers[:3]:
        writes_code(pool[number].graph)  # imports
    written = 0
    for number in numbers:
        with traced(lines):
            written += writes_code(pool[number].graph)
    return {"regions compiled": written, "lines of the compiler": len(lines)}


def writes_code(graph: Graph) -> bool:
    """Returns whether Inductor writes code for a graph."""
    reset()
    try:
        inputs = [to_torch(materialise(given), given.spec) for given in graph.inputs]
        library: Any = torch  # the overloads of `compile` are not fully typed
        library.compile(to_fx(graph, "cpu").forward, fullgraph=True, dynamic=False)(*inputs)
    except CodeWritten:
        return True
    except (GraphError, RuntimeError, AssertionError, TypeError):
        return False
    return True


class CodeWritten(Exception):
    """Inductor has written its code."""


def no_binding(*_: object, **__: object) -> Callable[..., None]:
    def run(*_: object) -> None:
        raise CodeWritten

    return run


@contextmanager
def traced(lines: set[tuple[str, int]]) -> Generator[None]:
    """Adds the lines of the compiler that run."""

    def local(frame: FrameType, event: str, _: object) -> Any:
        lines.add((frame.f_code.co_filename, frame.f_lineno))
        return local

    def on_call(frame: FrameType, event: str, _: object) -> Any:
        code = frame.f_code
        return local if code.co_filename.startswith(COMPILER) and code.co_name != "<module>" else None

    sys.settrace(on_call)
    try:
        yield
    finally:
        sys.settrace(None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pools", nargs="+", type=Path)
    parser.add_argument("--compile", type=int, default=0, metavar="N")
    args = parser.parse_args()
    AsyncCompile.cpp_pybinding = no_binding
    pools = [RegionPool.load(path) for path in args.pools]
    with inductor_config.patch({"force_disable_caches": True}):
        columns = [held(pool) | (compiled(pool, args.compile) if args.compile else {}) for pool in pools]
    for name in columns[0]:
        print(f"{name:40}" + "".join(f"{column[name]:12,}" for column in columns))


if __name__ == "__main__":
    main()
