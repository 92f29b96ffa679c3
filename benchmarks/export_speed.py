"""Measures what `torch_private.export_speed` saves: `python benchmarks/export_speed.py [--runs N]`.

The processor time of exporting and decomposing a program of two operators, before the change and after it, in one
process, and their ratio. With `--executorch`, run by an interpreter that has ExecuTorch, its lowering is included.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import time

import torch

from mindgap.aten.torch_private.export_speed import remember_composite_operators


class Program(torch.nn.Module):
    """A product and a softmax."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x @ x, -1)


def seconds(runs: int, *, executorch: bool) -> float:
    """The median processor time of one program."""
    found: list[float] = []
    for _ in range(runs + 1):
        start = time.process_time()
        exported = torch.export.export(Program(), (torch.ones(4, 4),))
        if executorch:
            importlib.import_module("executorch.exir").to_edge_transform_and_lower(exported).to_executorch()
        else:
            exported.run_decompositions()
        found.append(time.process_time() - start)
    return statistics.median(found[1:])


def main() -> None:
    """Prints one line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--executorch", action="store_true")
    asked = parser.parse_args()
    before = seconds(asked.runs, executorch=asked.executorch)
    remember_composite_operators()
    after = seconds(asked.runs, executorch=asked.executorch)
    print(f"{before:.3f} s before, {after:.3f} s after: {before / after:.2f} times as fast")


if __name__ == "__main__":
    main()
