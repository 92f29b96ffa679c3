"""tinygrad/cpu: `Gather` with constant indices of two or more dimensions fails: position embeddings as BERT's, `unfold`

Condition: the indices are a constant of two or more dimensions, along any axis; (1, 1), (1, 5), (8, 8) and (2, 2, 2)
were run. `torch.onnx.export` writes so `Tensor.unfold`, and `Embedding(position_ids[:, :n])` with a buffer of (1,
512), where the table is too large to be folded (512 rows of 768).
Seen with torch 2.13.0+cpu, tinygrad 0.14.0, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import os, platform, sys, tempfile
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'DEV': 'CPU', 'PARALLEL': '0', 'NUM_CPU_THREADS': '1'})  # before PyTorch is imported
import torch
from tinygrad import Tensor
from tinygrad.nn.onnx import OnnxRunner
import numpy as np
PACKAGES = ('torch', 'tinygrad', 'onnx', 'onnxscript')

FAILURE = ("TypeError", "not supported between instances of 'list' and 'int'")

class Model(torch.nn.Module):
    def forward(self, x0):
        return x0.unfold(1, 2, 1)

CASES = {
    "smallest": (Model, lambda: (torch.zeros(1, 2),)),
    "ordinary size": (Model, lambda: (torch.linspace(-1, 1, 12).reshape(3, 4),)),
}

def run(model, fresh):
    with tempfile.TemporaryDirectory() as folder:
        torch.onnx.export(model, fresh(), dynamo=True, verbose=False).save(f"{folder}/model.onnx")
        runner = OnnxRunner(f"{folder}/model.onnx")
    found = runner({n: Tensor(a.numpy()) for n, a in zip(runner.graph_inputs, fresh(), strict=True)})
    return [torch.as_tensor(np.array(value.numpy())) for value in found.values()]

flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out])]
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    print(f"{name}: eager gives", *(f"{value.dtype} {list(value.shape)}" for value in flat(Model().eval()(*fresh()))))
    try:
        run(Model().eval(), fresh)
        print(f"{name}: tinygrad/cpu@threads=1 runs it")
    except Exception as problem:
        print(f"{name}: tinygrad/cpu@threads=1 raised:", type(problem).__name__, str(problem)[-2000:])
        while problem and not (type(problem).__name__ == FAILURE[0] and FAILURE[1] in str(problem)):
            problem = problem.__cause__ or problem.__context__
        if not problem:
            sys.exit(print("It is another failure than the one that this script shows.") or 2)
        fault = True
print("FAULT" if fault else "NO FAULT")
sys.exit(int(fault))
