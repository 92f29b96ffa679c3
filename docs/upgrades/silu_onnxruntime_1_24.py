"""ONNX Runtime 1.24.4 does not load silu of float64: it fuses it to QuickGelu, which has no kernel for that dtype.

Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked. It needs torch, onnxscript, onnxruntime.
"""

import sys

import onnxruntime
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.silu(x)


x = torch.tensor([-1.0, 0.5, 2.0], dtype=torch.float64)


def main():
    print("onnxruntime", onnxruntime.__version__, "torch", torch.__version__)
    program = torch.onnx.export(Model(), (x,), dynamo=True, verbose=False)
    try:
        session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    except Exception as problem:
        print(type(problem).__name__, str(problem)[:300])
        print("FAULT" if "QuickGelu" in str(problem) else "It fails in another way.")
        return 1 if "QuickGelu" in str(problem) else 2
    (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    right = torch.allclose(torch.as_tensor(found), Model()(x))
    print("NO FAULT" if right else "It gives another result.")
    return 0 if right else 2


if __name__ == "__main__":
    sys.exit(main())
