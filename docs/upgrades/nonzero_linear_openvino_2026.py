"""OpenVINO ends with SIGFPE while it compiles a linear layer over no rows, and a copy of the result.

It does in 2026.1.0 and 2026.4.1; 2025.4.1 compiles and runs it. The rows are those that `nonzero` finds, as in
MFConv and NeuralFingerprint of PyTorch Geometric, which have a layer for each degree that a node may have.

Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked. It needs torch and openvino.
"""

import subprocess
import sys

import openvino
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(1, 1, bias=False)

    def forward(self, x, out):
        rows = torch.zeros(0).nonzero().view(0)
        return out.index_copy(0, rows, self.linear(x.index_select(0, rows)))


arguments = (torch.ones(1, 1), torch.ones(1, 1))


def compiled():
    program = torch.export.export(Model().eval(), arguments)
    model = openvino.compile_model(openvino.convert_model(program), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    (found,) = model([each.numpy() for each in arguments]).values()
    print("compiled and run:", found)


def main():
    print("openvino", openvino.__version__, "torch", torch.__version__)
    status = subprocess.run([sys.executable, __file__, "--compile"], check=False).returncode
    print("FAULT: killed by SIGFPE" if status == -8 else "NO FAULT" if status == 0 else f"exit status {status}")
    return {-8: 1, 0: 0}.get(status, 2)


if __name__ == "__main__":
    sys.exit(compiled() if "--compile" in sys.argv else main())
