"""executorch/tosa: `linear` and convolutions whose weight is an input of the model, or computed from one, end the lowering

Condition: the weight of `linear`, `conv1d`, `conv2d` or `conv_transpose2d` is an input of the model, or computed from
one.

Right for: weights that are parameters, or computed from parameters only (`weight_norm`, `weight * 2`); the product of
matrices `x @ weight.t()`.

The partitioner takes the operator without a look at its weight, and `RewriteConvPass`
(backends/arm/_passes/rewrite_conv_pass.py) then asks for the weight as a constant: `get_param_tensor` raises
"unsupported param type, placeholder." for an input of the model. An operator that the partitioner leaves would run in
ExecuTorch's own kernels; this exception ends the lowering of the whole model.

executorch/tosa was not run by hardware (simulated).

Seen with torch 2.13.0+cpu, executorch 1.5.1, tosa-tools 2026.8.0.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import platform
import sys
import traceback
from importlib.metadata import version

try:
    import torch
    import tosa_reference_model
    from executorch.backends.arm.tosa import TosaSpecification
    from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
    from executorch.backends.arm.tosa.partitioner import TOSAPartitioner
    from executorch.exir import to_edge_transform_and_lower
    from tosa.TosaGraph import TosaGraph
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)

PACKAGES = ('torch', 'executorch', 'tosa-tools')


FAILURE = ("RuntimeError", "unsupported param type, ")


class Model(torch.nn.Module):
    def forward(self, x, weight):
        return torch.nn.functional.linear(x, weight)


class Convolution(torch.nn.Module):
    def forward(self, x, weight):
        return torch.nn.functional.conv2d(x, weight)


class Computed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4, 3, 3, 3))

    def forward(self, x):
        return torch.nn.functional.conv2d(x, self.weight * x.mean((0, 2, 3))[None, :, None, None])


CASES = {
    "smallest": (Model, lambda: (torch.ones(1, 2), torch.ones(1, 2))),
    "conv2d": (Convolution, lambda: (torch.ones(1, 3, 8, 8), torch.ones(4, 3, 3, 3))),
    "ordinary size": (Computed, lambda: (torch.ones(1, 3, 32, 32),)),
}


def run(model, fresh):
    spec = TosaCompileSpec(TosaSpecification.create_from_string("TOSA-1.0+FP"))
    program = torch.export.export(model, fresh())
    lowered = to_edge_transform_and_lower(program, partitioner=[TOSAPartitioner(spec)]).exported_program()
    (part,) = [each for _, each in lowered.graph_module.named_children()]
    call = next(node for node in lowered.graph_module.graph.nodes if node.op == "call_function")
    block = TosaGraph.GetRootAs(part.processed_bytes, 0).Regions(0).Blocks(0)
    # The reference model takes no input of which the program uses the shape alone.
    read = {block.Inputs(number).decode() for number in range(block.InputsLength())}
    given = dict(zip(lowered.graph_signature.user_inputs, fresh(), strict=True))
    # A part reads and writes memory, in the order of dimensions that the program says: channels last is (N, H, W, C).
    arrays = [
        given[node.name].permute(node.meta["val"].dim_order()).contiguous().numpy()
        for name, node in zip(part.original_module.graph_signature.user_inputs, call.args[1:], strict=True)
        if name in read
    ]
    found, status = tosa_reference_model.run(part.processed_bytes, arrays)
    assert status == tosa_reference_model.GraphStatus.TOSA_VALID, status
    results = []
    for array, declared in zip(found, call.meta["val"], strict=True):
        order = declared.dim_order()
        held = torch.as_tensor(array).reshape([declared.shape[each] for each in order])
        results.append(held.permute([order.index(each) for each in range(len(order))]))
    return results


def versions():
    """The versions of the packages, the processor and its instruction set."""
    found = [f"{name} {version(name)}" for name in PACKAGES]
    return ", ".join([*found, platform.machine(), torch.backends.cpu.get_cpu_capability()])


def raised(call):
    """What `call` raises, and nothing that it prints; None where it raises nothing."""
    try:
        call()
    except Exception as problem:
        return problem, ""
    return None, ""



def is_the_failure(problem, printed):
    """Whether an exception, or one that it follows from, is the failure that this script shows."""
    while problem is not None:
        if FAILURE is not None and type(problem).__name__ == FAILURE[0] and FAILURE[1] in str(problem) + printed:
            return True
        problem = problem.__cause__ or problem.__context__
    return False


def main():
    torch.set_printoptions(precision=17)
    print(versions())
    found = False
    for name, (Model, fresh) in CASES.items():
        expected = Model().eval()(*fresh())
        expected = expected if isinstance(expected, tuple) else (expected,)
        print(f"{name}: eager gives", *(f"{value.dtype} {list(value.shape)}" for value in expected))
        problem, printed = raised(lambda: run(Model().eval(), fresh))
        if problem is None:
            print(f"{name}: executorch/tosa runs it")
            continue
        print(f"{name}: executorch/tosa raised:", type(problem).__name__, str(problem)[-2000:], printed[-2000:])
        if not is_the_failure(problem, printed):
            print("It is another failure than the one that this script shows.")
            return 2
        found = True
    print("FAULT" if found else "NO FAULT")
    return int(found)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
