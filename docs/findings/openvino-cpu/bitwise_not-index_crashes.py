"""openvino/cpu@precision=f32: aten.bitwise_not.default+aten.index.Tensor+aten.index_put_.default of bool, float32, int32: fails

Seen with torch 2.13.0+cpu, openvino 2026.4.1.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import os
import platform
import signal
import subprocess
import sys
import traceback

import numpy as np
import openvino
import torch

PROPERTIES = {'INFERENCE_PRECISION_HINT': 'f32'}


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("x1", torch.tensor([True], dtype=torch.bool))

    def forward(self, x0, x2, x3):
        v4 = torch.bitwise_not(self.x1)
        v5 = torch.ops.aten.index.Tensor(x0, [v4])
        v6 = torch.ops.aten.index.Tensor(x3, [v4])
        v7 = torch.ops.aten.index_put_.default(x2, [v6], v5)
        return (v7,)


def run(model, arguments):
    converted = openvino.convert_model(torch.export.export(model, arguments))
    compiled = openvino.compile_model(converted, "CPU", PROPERTIES)
    return [torch.as_tensor(np.array(array)) for array in compiled([a.numpy() for a in arguments]).values()]


x0 = torch.tensor([0.0], dtype=torch.float32)
x2 = torch.tensor([0.0], dtype=torch.float32)
x3 = torch.tensor([0], dtype=torch.int32)


LIMIT_S = 150  # the platform's process is ended after so many seconds


def main():
    arguments = tuple([x.clone() for x in (x0, x2, x3)])
    if sys.argv[1:] == ["run"]:
        run(Model().eval(), arguments)
        return 0
    print("torch", torch.__version__, "openvino", openvino.__version__, platform.machine())
    print("eager:", Model()(*arguments), flush=True)
    child = subprocess.Popen([sys.executable, __file__, "run"], start_new_session=True)
    try:
        status = child.wait(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        print(f"openvino/cpu@precision=f32 does not end within {LIMIT_S} s")
        print("Another fault than the one that this script shows.")
        return 2
    if status < 0:
        print("openvino/cpu@precision=f32 ends with", signal.Signals(-status).name)
        print("FAULT")
        return 1
    print("NO FAULT" if status == 0 else "It fails in another way.")
    return 0 if status == 0 else 2


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
