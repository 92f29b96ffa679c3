"""Checks rows of a campaign through the path of a user: PyTorch's exporter, the runtime's front end, and float64.

    python benchmarks/campaign_audit.py out/shard00 --findings 200 --calm 200 --json out/audit.json

Draws findings and calm rows by a seed. Each variant becomes a plain `torch.nn.Module`, which runs on the row's runtime
without mindgap's platforms, own path and judge: `torch.onnx.export(dynamo=True)` and a session,
`openvino.convert_model` of `torch.export.export`, or `torch.jit.trace`. The truth is the module in float64. A finding
is confirmed if the whole variant, or the culprit alone on the operands that it had, fails, has another shape or dtype,
or errs by more than 16 times what eager errs. A calm row is confirmed if the variant does none of this. Rows that are
not confirmed are printed: a reader decides them. A limit by the largest element is coarser than the judge's bounds.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from mindgap.aten.operators import bind, callable_of
from mindgap.aten.tape import flatten_result
from mindgap.aten.tensors import TORCH_DTYPES, input_tensors
from mindgap.graph import Graph, MindgapError, default_tensor_store, materialise_all
from mindgap.graph.compare.verdict import FINDINGS
from mindgap.platforms.pytorch.compilation.fx_module import foldable
from mindgap_campaign.campaign.results.case_file import graph_of, node_alone
from mindgap_campaign.campaign.results.findings import rows_of_case
from mindgap_campaign.campaign.state.directory import CampaignDirectory, open_directory

_CALM = ("rounding", "identical")
_DRAWN = "SELECT model, platform FROM verdicts WHERE run = ? AND list_contains(?, word) AND platform <> ? ORDER BY ALL"
#: Seconds for one way of running one graph.
_LIMIT = 150
Tensors = Sequence[torch.Tensor]


class Program(torch.nn.Module):
    """A graph as a module that calls its operators in order. `tensors`: all inputs, of which the weights are held."""

    def __init__(self, graph: Graph, tensors: Tensors) -> None:
        super().__init__()
        self._graph, self._calls = graph, [callable_of(node) for node in graph.nodes]
        self._held = sorted(foldable(graph))
        for number in self._held:
            self.register_buffer(f"weight{number}", tensors[number])

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given = iter(inputs)
        numbers = range(len(self._graph.inputs))
        values: list[Any] = [getattr(self, f"weight{i}") if i in self._held else next(given) for i in numbers]
        for node, call in zip(self._graph.nodes, self._calls, strict=True):
            named = {name: bind(arg, values) for name, arg in node.kwargs}
            values.extend(flatten_result(call(*(bind(arg, values) for arg in node.args), **named)))
        return tuple(values[i] for i in self._graph.outputs)

    def fed(self, tensors: Tensors) -> list[torch.Tensor]:
        return [tensor for number, tensor in enumerate(tensors) if number not in self._held]


def on_onnxruntime(program: Program, inputs: Tensors) -> list[torch.Tensor]:
    exported = torch.onnx.export(program, copies(inputs), dynamo=True, verbose=False)
    return list(exported(*inputs))  # a session of ONNX Runtime


def on_openvino(program: Program, inputs: Tensors) -> list[torch.Tensor]:
    import openvino

    model = openvino.convert_model(torch.export.export(program, copies(inputs)))
    compiled = openvino.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1})
    fed = {i: openvino.Tensor(value.contiguous().numpy()) for i, value in enumerate(inputs)}
    return [torch.from_numpy(value.copy()) for value in compiled(fed).to_tuple()]


def on_jit(program: Program, inputs: Tensors) -> list[torch.Tensor]:
    return list(torch.jit.trace(program, copies(inputs), check_trace=False)(*inputs))


def copies(inputs: Tensors) -> tuple[torch.Tensor, ...]:
    """What tracing may write to."""
    return tuple(each.clone() for each in inputs)


WAYS = {"onnxruntime": on_onnxruntime, "openvino": on_openvino, "cpu": on_jit}


def wide(tensor: torch.Tensor) -> torch.Tensor:
    return (
        tensor.double()
        if tensor.is_floating_point()
        else tensor.to(torch.complex128)
        if tensor.is_complex()
        else tensor
    )


def off(got: torch.Tensor, right: torch.Tensor, scale: bool) -> torch.Tensor:
    """The error of each element, relative to itself, or with `scale` to the largest finite one; inf for NaN or Inf."""
    g, r = got.to(torch.complex128), right.to(torch.complex128)
    size = r.abs().where(r.isfinite(), 0.0)
    apart = (g - r).abs() / (size.max() if scale and size.numel() else size).clamp_min(1e-300)
    same = (got == right) | (got.isnan() & right.isnan())
    return torch.where(same, 0.0, apart.nan_to_num(torch.inf, torch.inf))


def compared(got: Tensors, eager: Tensors, right: Tensors, floor: float | None, scale: bool) -> str:
    """Describes how the outputs differ; empty where they do not. `floor`: the least error that counts, over 16; None
    for that of each output's dtype."""
    if len(got) != len(eager):
        return f"structural: {len(got)} outputs for {len(eager)}"
    for number, (g, e, r) in enumerate(zip(got, eager, right, strict=True)):
        if e.is_complex() and not g.is_complex() and g.shape == (*e.shape, 2):
            g = torch.view_as_complex(g)  # ONNX has no complex outputs
        if g.dtype != e.dtype or g.shape != e.shape:
            return f"structural: output {number} is {g.dtype}{list(g.shape)} for {e.dtype}{list(e.shape)}"
        if not g.numel():
            continue
        far, near = off(g, r, scale), off(e, r, scale)
        floating = e.is_floating_point() or e.is_complex()
        least = 0.0 if not floating else torch.finfo(e.dtype).eps if floor is None else floor
        limit = 16 * (near.max() if scale else near).clamp_min(least)
        if (far > limit).any():
            return f"wrong: output {number} is off by {far.max().item():.3g}, eager by {near.max().item():.3g}"
    return ""


def run(graph: Graph, arrays: Sequence[Any], way: str, scale: bool, narrow: bool) -> str:
    """Runs a graph on a runtime and compares it: `fails: …`, `structural: …`, `wrong: …`, or empty.

    `narrow`: an output may have the precision of the coarsest dtype on the way, in place of its own.
    """
    warnings.simplefilter("ignore")

    def made(widened: bool = False) -> tuple[Program, list[torch.Tensor]]:
        tensors = [tensor.clone() for tensor in input_tensors(graph, arrays)]
        tensors = [wide(tensor) for tensor in tensors] if widened else tensors
        program = Program(graph, tensors).eval()
        return program, program.fed(tensors)

    def called(program: Program, inputs: Tensors) -> Tensors:
        return program(*inputs)

    dtypes = {TORCH_DTYPES[value.dtype] for value in graph.values if value is not None}
    floor = max((torch.finfo(each).eps for each in dtypes if each.is_floating_point), default=0.0)
    with torch.no_grad():
        eager = called(*made())
        try:
            right = called(*made(widened=True))
        except Exception:  # no float64 form: eager is the truth
            right = eager
        try:
            got = WAYS[way](*made())
        except Exception as error:
            return f"fails: {type(error).__name__}: {error}".replace("\n", " ")[:300]
    return compared(got, eager, right, floor if narrow else None, scale)


def apart(graph: Graph, arrays: Sequence[Any], way: str, scale: bool, narrow: bool = False) -> str:
    """`run` in a process of its own, which may crash or hang."""
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    child = context.Process(target=lambda: send.send(run(graph, arrays, way, scale, narrow)))
    child.start()
    send.close()
    try:
        return receive.recv() if receive.poll(_LIMIT) else "no answer: it took too long"
    except EOFError:
        child.join()
        return f"fails: the process ended with {child.exitcode}"
    finally:
        child.kill()
        child.join()


def audited(directory: CampaignDirectory, case: str, platform: str) -> dict[str, Any]:
    """Runs the variant of a row, and its culprit alone, through the user's path."""
    (row,) = rows_of_case(directory, case, platform)
    finding, way, tensors = row["word"] in FINDINGS, platform.split("/")[0], default_tensor_store()
    graph = graph_of(directory, row)
    whole, alone = apart(graph, materialise_all(graph, tensors), way, scale=True, narrow=not finding), ""
    if finding and row["culprit_node"] is not None and row["culprit_node"] >= 0:
        one = node_alone(graph, row["culprit_node"], tensors)
        alone = apart(one, materialise_all(one, tensors), way, scale=False)
    return {
        "case": case, "platform": platform, "word": row["word"], "culprit": row["culprit_op"], "detail": row["detail"],
        "nodes": len(graph.nodes), "whole": whole, "alone": alone, "confirmed": bool(whole or alone) == finding,
    }  # fmt: skip


def drawn(directory: CampaignDirectory, words: Sequence[str], count: int, seed: int) -> list[tuple[str, str]]:
    rows = directory.store.rows(_DRAWN, [directory.run, list(words), "cpu/eager@isa=default"])
    pairs = [(row["model"], row["platform"]) for row in rows]
    return random.Random(seed).sample(pairs, min(count, len(pairs)))


def summary(rows: Sequence[Mapping[str, Any]]) -> Counter[tuple[str, str]]:
    return Counter((str(row["word"]), "confirmed" if row["confirmed"] else "not confirmed") for row in rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("campaign", type=Path)
    parser.add_argument("--findings", type=int, default=200)
    parser.add_argument("--calm", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    directory = open_directory(given.campaign)
    wanted = [(pair, FINDINGS) for pair in drawn(directory, FINDINGS, given.findings, given.seed)]
    wanted += [(pair, _CALM) for pair in drawn(directory, _CALM, given.calm, given.seed)]
    if not wanted:
        raise SystemExit(f"{given.campaign} has no row to audit")
    rows: list[dict[str, Any]] = []
    for (case, platform), _ in wanted:
        try:
            row = audited(directory, case, platform)
        except MindgapError as error:
            row = {"case": case, "platform": platform, "word": "?", "whole": f"no graph: {error}", "confirmed": False}
        rows.append(row)
        if not row["confirmed"]:
            print(*(f"{key}={value}" for key, value in row.items()), sep=" | ", flush=True)
        if given.json:
            given.json.write_text(json.dumps(rows, indent=1))
    for (word, state), count in sorted(summary(rows).items()):
        print(f"{count:5} {word}: {state}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
