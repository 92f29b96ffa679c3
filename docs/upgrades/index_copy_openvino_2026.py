"""OpenVINO ends with SIGFPE while it compiles `index_copy` of no rows: 2026.1.0 and 2026.4.1 do, 2025.4.1 does not.

MFConv and NeuralFingerprint of PyTorch Geometric copy the rows of each degree that a node may have; of most
degrees there are none. The stack ends in the constant folding of OpenVINO's `Broadcast`.

Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked. It needs torch and openvino.
"""

import subprocess
import sys

import openvino
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.zeros(0, dtype=torch.int64))

    def forward(self, x):
        return x.index_copy(0, self.rows, x[:0])


def compiled():
    program = torch.export.export(Model().eval(), (torch.ones(2),))
    model = openvino.compile_model(openvino.convert_model(program), "CPU")
    (found,) = model([torch.ones(2).numpy()]).values()
    print("compiled and run:", found)


def main():
    print("openvino", openvino.__version__, "torch", torch.__version__)
    status = subprocess.run([sys.executable, __file__, "--compile"], check=False).returncode
    print("FAULT: killed by SIGFPE" if status == -8 else "NO FAULT" if status == 0 else f"exit status {status}")
    return {-8: 1, 0: 0}.get(status, 2)


if __name__ == "__main__":
    sys.exit(compiled() if "--compile" in sys.argv else main())
