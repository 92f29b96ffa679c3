"""OpenVINO no longer converts index_add: it does in 2025.4.1, and does not in 2026.1.0 and 2026.4.1.

Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked. It needs torch and openvino.
"""

import sys

import openvino
import torch


class Model(torch.nn.Module):
    def forward(self, x, index, source):
        return x.index_add(0, index, source)


arguments = (torch.zeros(4, 3), torch.tensor([0, 2]), torch.ones(2, 3))


def main():
    print("openvino", openvino.__version__, "torch", torch.__version__)
    program = torch.export.export(Model(), arguments)
    try:
        model = openvino.compile_model(openvino.convert_model(program), "CPU")
    except Exception as problem:
        print(type(problem).__name__, str(problem)[-300:])
        print("FAULT" if "index_add" in str(problem) else "It fails in another way.")
        return 1 if "index_add" in str(problem) else 2
    (found,) = model([each.numpy() for each in arguments]).values()
    right = bool((found == Model()(*arguments).numpy()).all())
    print("NO FAULT" if right else "It gives another result.")
    return 0 if right else 2


if __name__ == "__main__":
    sys.exit(main())
