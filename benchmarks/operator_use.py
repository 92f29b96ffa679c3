"""Counts in how many captured models each function of PyTorch occurs; severity of causes is ranked by it.

    python benchmarks/operator_use.py GRAPHNET.parquet > src/mindgap/causes/operator_use.csv

Reads the table of GraphNet's computation graphs (one row per model, column `nodes`: JSON list of calls with `target`).
Writes the number of graphs, then a line for each function of ATen: its name as `mindgap.causes.packets.function_of`
gives it, and the number of graphs that call it at least once. A Python function that runs several ATen operators counts
for each of them.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import Final

import duckdb
import torch

from mindgap.causes.packets import function_of

#: Python names that ATen spells otherwise, and functions that run several operators.
ATEN: Final = {
    "getitem": "slice select index unsqueeze",
    "setitem": "copy index_put fill",
    "truediv": "div",
    "floordiv": "floor_divide div",
    "mod": "remainder",
    "invert": "bitwise_not logical_not",
    "and_": "bitwise_and",
    "or_": "bitwise_or",
    "linear": "linear addmm mm",
    "matmul": "matmul mm bmm",
    "einsum": "einsum bmm",
    "baddbmm": "baddbmm bmm",
    "conv1d": "conv1d convolution",
    "conv2d": "conv2d convolution",
    "conv3d": "conv3d convolution",
    "conv_transpose1d": "conv_transpose1d convolution",
    "conv_transpose2d": "conv_transpose2d convolution",
    "interpolate": "upsample_nearest2d upsample_bilinear2d upsample_bicubic2d upsample_nearest1d upsample_linear1d",
    "float": "to",
    "long": "to",
    "int": "to",
    "bool": "to",
    "type": "to",
    "type_as": "type_as to",
    "norm": "norm linalg_vector_norm",
    "linalg_norm": "linalg_norm linalg_vector_norm",
    "normalize": "linalg_vector_norm clamp_min",
    "unfold": "im2col unfold",
    "fold": "col2im",
    "pad": "pad constant_pad_nd",
    "flatten": "flatten view",
    "reshape": "reshape view",
    "contiguous": "contiguous clone",
    "multi_head_attention_forward": "linear softmax bmm",
    "grid_sample": "grid_sampler grid_sampler_2d",
    "dropout2d": "feature_dropout dropout",
}


def functions(target: str) -> set[str]:
    """The ATen functions that a call target runs: `torch.nn.functional.layer_norm` gives `layer_norm`."""
    name = target.rpartition(".")[2] if not target.startswith("torch.ops.aten.") else target.split(".")[3]
    if target.startswith("operator.i") and name not in ("invert", "index"):
        name = name[1:]
    return {function_of(each) for each in ATEN.get(name.rstrip("_") if name not in ATEN else name, name).split()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path, help="the Parquet file of GraphNet's graphs")
    path = parser.parse_args().table
    counts: Counter[str] = Counter()
    sql = "SELECT list_distinct(json_extract_string(nodes, '$[*].target')) FROM read_parquet(?)"
    rows = duckdb.execute(sql, [str(path)]).fetchall()
    for (targets,) in rows:
        found = set[str]().union(*map(functions, targets))
        counts.update(name for name in found if hasattr(torch.ops.aten, name))
    print("# In how many graphs of GraphNet each function occurs: python benchmarks/operator_use.py GRAPHNET.parquet")
    print(f"graphs,{len(rows)}")
    for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        print(f"{name},{count}")


if __name__ == "__main__":
    main()
