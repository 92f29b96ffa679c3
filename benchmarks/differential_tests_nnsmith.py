"""Runs the NNSmith part of `differential_tests.py`, in an interpreter that has it: `PYTHON SCRIPT jit|inductor TESTS`.

Prints one line of JSON. NNSmith's one-time search for an operator's dtypes is not counted.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import warnings
from collections import Counter

os.environ.setdefault("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "1")
warnings.simplefilter("ignore")

import numpy as np  # noqa: E402
import torch  # noqa: E402
from nnsmith.backends.factory import BackendFactory  # noqa: E402
from nnsmith.graph_gen import model_gen  # noqa: E402
from nnsmith.materialize import Model  # noqa: E402
from nnsmith.narrow_spec import auto_opset  # noqa: E402
from nnsmith.util import set_seed  # noqa: E402


def main(mode: str, tests: int) -> None:
    torch.set_num_threads(1)
    factory = BackendFactory.init("torchjit", target="cpu", optmax=True)
    model_type = Model.init("torch", backend_target="cpu")
    model_type.add_seed_setter()
    operators = auto_opset(model_type, factory)
    set_seed(0)
    kinds: Counter[str] = Counter()
    tested(0, operators, model_type, factory, mode)  # a first one, which nobody counts
    nodes, started = 0, cpu_seconds()
    for seed in range(1, tests + 1):
        what, size = tested(seed, operators, model_type, factory, mode)
        kinds[what] += 1
        nodes += size
    print(json.dumps({"tests": tests, "seconds": cpu_seconds() - started, "nodes": nodes, "kinds": kinds}))


def tested(seed: int, operators: list, model_type: type, factory: BackendFactory, mode: str) -> tuple[str, int]:
    """One test as its fuzzing loop makes it: generate, search inputs, run eager, run compiled, compare."""
    try:
        made = model_gen(opset=operators, method="symbolic-cinit", seed=seed, max_nodes=10, timeout_ms=10000)
        graph = made.make_concrete()
        model = model_type.from_gir(graph)
        model.refine_weights()
        oracle = model.make_oracle()
    except Exception as error:
        return f"not made: {type(error).__name__}", 0
    size = len(graph.insts)
    try:
        found = factory.make_backend(model)(oracle.input) if mode == "jit" else compiled(model, oracle.input)
    except Exception as error:
        return f"failed: {type(error).__name__}", size
    close = all(np.allclose(found[k], v, rtol=1e-2, atol=1e-3, equal_nan=True) for k, v in oracle.output.items())
    return ("close" if close else "beyond tolerance"), size


def compiled(model: Model, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    torch._dynamo.reset()
    net = model.torch_model.eval()
    with torch.no_grad():
        outputs = torch.compile(net)(*(torch.from_numpy(v) for v in given.values()))
    return {k: v.detach().numpy() for k, v in zip(net.output_like.keys(), outputs, strict=True)}


def cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
