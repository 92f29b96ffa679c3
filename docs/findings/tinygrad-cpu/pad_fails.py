"""tinygrad/cpu@threads=1: aten.pad.default of float32: fails

Seen with torch 2.13.0+cpu, onnx 1.23.2, onnxscript 0.7.2, tinygrad 0.14.0.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import os
import platform
import sys
import tempfile
import traceback

os.environ.update({'DEV': 'CPU', 'PARALLEL': '0', 'NUM_CPU_THREADS': '1'})  # before PyTorch is imported

import numpy as np
import torch


class Model(torch.nn.Module):
    def forward(self, x0):
        v1 = torch.nn.functional.pad(x0, [0, 0], 'reflect')
        return (v1,)


def run(model, arguments):
    from tinygrad import Tensor
    from tinygrad.nn.onnx import OnnxRunner

    with tempfile.TemporaryDirectory() as folder:
        torch.onnx.export(model, arguments, dynamo=True, verbose=False).save(f"{folder}/model.onnx")
        runner = OnnxRunner(f"{folder}/model.onnx")
        found = runner({n: Tensor(a.numpy()) for n, a in zip(runner.graph_inputs, arguments, strict=True)})
        return [torch.as_tensor(np.array(value.numpy())) for value in found.values()]


x0 = torch.empty((0, 3, 3), dtype=torch.float32)


def main():
    print("torch", torch.__version__, platform.machine())
    expected = Model()(*[x.clone() for x in (x0,)])
    try:
        actual = run(Model().eval(), tuple([x.clone() for x in (x0,)]))
    except Exception as problem:
        print("tinygrad/cpu@threads=1 fails:", type(problem).__name__, str(problem)[-3000:])
        print("FAULT")
        return 1
    print("tinygrad/cpu@threads=1 gives", actual, "eager", expected)
    print("NO FAULT")
    return 0


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
