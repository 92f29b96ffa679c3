"""executorch/tosa: `linear` and convolutions whose weight is an input of the model, or computed from one, end the lowering

Condition: the weight of `linear`, `conv1d`, `conv2d` or `conv_transpose2d` is an input of the model, or computed from
one.
executorch/tosa was not run by hardware (simulated).
Seen with torch 2.13.0+cpu, executorch 1.5.1, tosa-tools 2026.8.0.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch, tosa_reference_model
from executorch.backends.arm.tosa import TosaSpecification
from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
from executorch.backends.arm.tosa.partitioner import TOSAPartitioner
from executorch.exir import to_edge_transform_and_lower
PACKAGES = ('torch', 'executorch', 'tosa-tools')
FAILURE = ("RuntimeError", "unsupported param type, ")

class Model(torch.nn.Module):
    def forward(self, x, weight):
        return torch.nn.functional.linear(x, weight)

class Computed(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.conv2d(x, torch.ones(4, 3, 3, 3) * x.mean((0, 2, 3))[None, :, None, None])

CASES = {
    "smallest": (Model, lambda: (torch.ones(1, 2), torch.ones(1, 2))),
    "ordinary size": (Computed, lambda: (torch.ones(1, 3, 32, 32),)),
}

def run(model, fresh):
    spec = TosaCompileSpec(TosaSpecification.create_from_string("TOSA-1.0+FP"))
    program = torch.export.export(model, fresh())
    lowered = to_edge_transform_and_lower(program, partitioner=[TOSAPartitioner(spec)]).exported_program()
    (part,) = [each for _, each in lowered.graph_module.named_children()]
    found, status = tosa_reference_model.run(part.processed_bytes, [a.contiguous().numpy() for a in fresh()])
    assert status == tosa_reference_model.GraphStatus.TOSA_VALID, status
    return [torch.as_tensor(array) for array in found]

flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out])]
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    print(f"{name}: eager gives", *(f"{value.dtype} {list(value.shape)}" for value in flat(Model().eval()(*fresh()))))
    try:
        run(Model().eval(), fresh)
        print(f"{name}: executorch/tosa runs it")
    except Exception as problem:
        print(f"{name}: executorch/tosa raised:", type(problem).__name__, str(problem)[-2000:])
        while problem and not (type(problem).__name__ == FAILURE[0] and FAILURE[1] in str(problem)):
            problem = problem.__cause__ or problem.__context__
        if not problem:
            sys.exit(print("It is another failure than the one that this script shows.") or 2)
        fault = True
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
