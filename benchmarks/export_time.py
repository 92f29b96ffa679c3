"""Measures the CPU time to load a graph in ONNX Runtime and OpenVINO, with mindgap's export and the official one.

    python benchmarks/export_time.py [MODEL …] [--islands 20 100 300]
    python benchmarks/export_time.py --steps 16

CPU seconds, the second of two runs each (the first fills caches that live as long as a worker). `official`:
`torch.onnx.export(dynamo=True)`, from the module. `ours`: from the captured graph, with and without onnxscript's
optimiser. `convert_model`: OpenVINO's own translation of a `torch.export` program. `distance`: the largest
difference from eager over the largest output, through ONNX and through `convert_model`.

`--steps N` measures, once, a Llama of two layers, width 64 and 256 tokens that runs N steps
with its cache after a prompt of 8 tokens: each stage of its export to ONNX Runtime, and `mindgap diff --steps N`.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "mindgap"))

from mindgap.graph import concatenate
from mindgap.platforms.onnx.export import export
from mindgap.platforms.onnxruntime.backend import BACKEND as ONNXRUNTIME
from mindgap.platforms.openvino.backend import BACKEND as OPENVINO
from platforms.onnx_graphs import MODELS, captured, eager, normal


def seconds(action: Callable[[], Any]) -> float:
    """CPU seconds of the second of two runs."""
    action()
    start = time.process_time()
    action()
    return time.process_time() - start


def distance(found: Any, expected: Any) -> float:
    return float(np.abs(found - expected).max() / np.abs(expected).max())


class Wrapped(torch.nn.Module):
    def __init__(self, program: Any) -> None:
        super().__init__()
        self.program = program

    def forward(self, example: torch.Tensor) -> Any:
        return self.program(example)


def models(names: Sequence[str]) -> None:
    import openvino

    print(f"{'model':10}{'nodes':>6}{'official':>9}{'ours':>6}{'plain':>6}{'ort':>6}{'openvino':>9}", end="")
    print(f"{'convert_model':>14}  distance")
    for name in names:
        program, example = MODELS[name]()
        graph, inputs = captured(program, example)
        module = program if isinstance(program, torch.nn.Module) else Wrapped(program).eval()
        reference = eager(graph, inputs)[0]
        exported = torch.export.export(module, (example,))
        settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
        direct = openvino.Core().compile_model(openvino.convert_model(exported), "CPU", settings)
        far = distance(OPENVINO.open({"frontend": "onnx"}).load(graph, inputs)(inputs)[0], reference)
        near = distance(direct([example.numpy()])[0], reference)
        costs = (
            seconds(lambda m=module, e=example: torch.onnx.export(m, (e,), dynamo=True, verbose=False)),
            seconds(lambda g=graph, i=inputs: export(g, i)),
            seconds(lambda g=graph, i=inputs: export(g, i, optimize=False)),
            seconds(lambda g=graph, i=inputs: ONNXRUNTIME.open({}).load(g, i)),
            seconds(lambda g=graph, i=inputs: OPENVINO.open({"frontend": "onnx"}).load(g, i)),
            seconds(lambda m=module, e=example: openvino.convert_model(torch.export.export(m, (e,)))),
        )
        print(f"{name:10}{len(graph.nodes):6}{costs[0]:9.2f}{costs[1]:6.2f}{costs[2]:6.2f}", end="")
        print(f"{costs[3]:6.2f}{costs[4]:9.2f}{costs[5]:14.2f}  {far:.1e} {near:.1e}")


def islands(count: int) -> None:
    made = [
        captured(lambda x, w: torch.relu(torch.nn.functional.linear(x, w)).sum(0), normal(4, 8), normal(8, 8)),
        captured(lambda x, w: (x * 2 + 1).softmax(-1) @ w.t(), normal(4, 8), normal(8, 8)),
        captured(lambda x, w: torch.nn.functional.layer_norm(x, (8,)).exp(), normal(4, 8), normal(8, 8)),
    ]
    chosen = [made[number % 3] for number in range(count)]
    graph, inputs = concatenate([g for g, _ in chosen]), [array for _, arrays in chosen for array in arrays]
    loads = (
        seconds(lambda: ONNXRUNTIME.open({}).load(graph, inputs)),
        seconds(lambda: OPENVINO.open({"frontend": "onnx"}).load(graph, inputs)),
    )
    runs = [backend.open({}).load(graph, inputs) for backend in (ONNXRUNTIME, OPENVINO)]
    once = [seconds(lambda r=run: [r(inputs) for _ in range(20)]) / 20 for run in runs]
    print(
        f"{count} islands, {len(graph.nodes)} nodes, {len(graph.inputs)} inputs: load {loads[0]:.2f} s onnxruntime, ",
        end="",
    )
    print(f"{loads[1]:.2f} s openvino; run {once[0] * 1e3:.2f} ms, {once[1] * 1e3:.2f} ms")


def call() -> None:
    graph, inputs = captured(lambda x: x + 1, normal(4, 8))
    for name, backend in (("onnxruntime", ONNXRUNTIME), ("openvino", OPENVINO)):
        executable = backend.open({}).load(graph, inputs)
        cost = seconds(lambda e=executable: [e(inputs) for _ in range(1000)])
        print(f"{name}: {cost * 1e3:.0f} µs a call of one node")


_LLAMA = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM


def make():
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2)
    return LlamaForCausalLM(config).eval(), (), {"input_ids": torch.randint(256, (1, 8)), "use_cache": True}
"""


def steps(count: int) -> None:
    """Prints processor seconds of all threads, and of all processes for `mindgap diff`."""
    import onnxruntime

    from mindgap.own_path.program_run import FlatProgram
    from mindgap.own_path.worker import opened_program
    from mindgap.sources.libraries import declare_operators

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "llama.py"
        path.write_text(_LLAMA)
        declare_operators()
        built = opened_program(f"{path}:make?steps={count}")
        flat, last = FlatProgram(built.program, built.args, built.kwargs), time.process_time()

        def stage(name: str) -> None:
            nonlocal last
            print(f"{name}: {time.process_time() - last:.2f} CPU s", flush=True)
            last = time.process_time()

        with torch.no_grad():
            flat(*flat.tensors)
        stage("eager mode")
        exported = torch.export.export(flat, tuple(flat.tensors))
        stage("torch.export.export")
        program = torch.onnx.export(exported, optimize=False, verbose=False)
        assert program is not None
        before = program.model.graph.num_nodes()
        stage("torch.onnx.export")
        program.optimize()
        stage(f"onnxscript's optimiser, {before} nodes to {program.model.graph.num_nodes()}")
        session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
        stage("session")
        names = [each.name for each in session.get_inputs()]
        session.run(None, dict(zip(names, (each.numpy() for each in flat.tensors), strict=True)))
        stage("run")
        spent = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "mindgap", "diff", f"{path}:make", "--steps", str(count), "--json"]
        done = subprocess.run([*command, "-p", "onnxruntime/cpu"], stdout=subprocess.PIPE, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = after.ru_utime + after.ru_stime - spent.ru_utime - spent.ru_stime
    (row,) = json.loads(done.stdout)["rows"]
    own = row["own_path"] or {"status": "none", "detail": ""}
    print(f"mindgap diff: {total:.0f} CPU s, {row['verdict']}; {own['status']} by its own export {own['detail'][:120]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"{' '.join(MODELS)}; all without --steps")
    parser.add_argument("--islands", type=int, nargs="*", help="small graphs in one load; 20 100 300 without --steps")
    parser.add_argument("--steps", type=int, help="of a decoder with a cache")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    alone = chosen.steps is not None
    named = chosen.models or ([] if alone else [*MODELS])
    if named:
        models(named)
    for count in ([] if alone else [20, 100, 300]) if chosen.islands is None else chosen.islands:
        islands(count)
    if named:
        call()
    if alone:
        steps(chosen.steps)


if __name__ == "__main__":
    main()
