"""OpenVINO 2026.4.1 does not convert vector_norm as PyTorch 2.13.0 exports it; it does as PyTorch 2.14.1 exports it.

Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked. It needs torch and openvino.
"""

import sys

import openvino
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.linalg.vector_norm(x)


arguments = (torch.tensor([3.0]),)


def main():
    print("openvino", openvino.__version__, "torch", torch.__version__)
    program = torch.export.export(Model(), arguments)
    try:
        model = openvino.compile_model(openvino.convert_model(program), "CPU")
    except Exception as problem:
        print(type(problem).__name__, str(problem)[-300:])
        print("FAULT" if "vector_norm" in str(problem) else "It fails in another way.")
        return 1 if "vector_norm" in str(problem) else 2
    (found,) = model([each.numpy() for each in arguments]).values()
    right = bool((found == Model()(*arguments).numpy()).all())
    print("NO FAULT" if right else "It gives another result.")
    return 0 if right else 2


if __name__ == "__main__":
    sys.exit(main())
