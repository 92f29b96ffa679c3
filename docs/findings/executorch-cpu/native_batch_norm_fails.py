"""executorch/cpu@threads=1: aten.native_batch_norm.default of float32: fails

Seen with torch 2.13.0+cpu, executorch 1.5.1.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import platform
import sys
import traceback

import torch


class Model(torch.nn.Module):
    def forward(self, x0, x1, x2, x3, x4):
        v5 = torch.nn.functional.batch_norm(x0, x3, x4, x1, x2, False, 0.0, 9.999999747378752e-06)
        return (v5,)


def run(model, arguments):
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower
    from executorch.runtime import Runtime

    program = torch.export.export(model, arguments)
    lowered = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()]).to_executorch()
    loaded = Runtime.get().load_program(bytes(lowered.buffer))
    return loaded.load_method("forward").execute(list(arguments))


x0 = torch.empty_strided((2, 1), (1, 2), dtype=torch.float32).copy_(torch.full((2, 1), 0.0, dtype=torch.float32))
x1 = torch.tensor([0.0], dtype=torch.float32)
x2 = torch.tensor([0.0], dtype=torch.float32)
x3 = torch.tensor([0.0], dtype=torch.float32)
x4 = torch.tensor([0.0], dtype=torch.float32)


def main():
    print("torch", torch.__version__, platform.machine())
    expected = Model()(*[x.clone() for x in (x0, x1, x2, x3, x4)])
    try:
        actual = run(Model().eval(), tuple([x.clone() for x in (x0, x1, x2, x3, x4)]))
    except Exception as problem:
        print("executorch/cpu@threads=1 fails:", type(problem).__name__, str(problem)[-3000:])
        print("FAULT")
        return 1
    print("executorch/cpu@threads=1 gives", actual, "eager", expected)
    print("NO FAULT")
    return 0


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
