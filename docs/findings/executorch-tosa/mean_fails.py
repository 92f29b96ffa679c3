"""executorch/tosa: `sum()`, `mean()` and `amax()` of all elements do not lower as a model's result (`mse_loss` too)

Condition: a reduction over all dimensions without `keepdim` is a result of the model, directly or through an
elementwise operator such as `threshold`.

Right for: `keepdim=True`; a reduction over some dimensions; the sum inside a model, as in `x / x.sum()`;
`torch.linalg.vector_norm(x)` and `x[0, 1] * 2`, whose results have no dimensions either.

A pass of the Arm backend (`InsertConstShapesPass`) writes the shape of the result as a node CONST_SHAPE, whose value
is the shape itself, here `()`. `EdgeOpArgValidator.call_function` (exir/verification/arg_validator.py) takes a
sequence as the results of a node, so it looks for the first of none: `next(ret_iter)` ends with StopIteration, which
becomes an InternalError without a word. Of a shape with dimensions it takes the first size for the result, and asks
nothing more.

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


FAILURE = ("InternalError", "tosa.CONST_SHAPE.default](args = ((),), kwargs = {})")


class Model(torch.nn.Module):
    def forward(self, x):
        return x.mean()


class Sum(torch.nn.Module):
    def forward(self, x):
        return torch.sum(x)


class Amax(torch.nn.Module):
    def forward(self, x):
        return torch.amax(x)


class Loss(torch.nn.Module):
    def forward(self, x, y):
        return torch.nn.functional.mse_loss(x, y)


CASES = {
    "smallest": (Model, lambda: (torch.tensor([1.0, 2.0]),)),
    "sum": (Sum, lambda: (torch.ones(3, 5),)),
    "amax": (Amax, lambda: (torch.arange(15.0).reshape(3, 5),)),
    "ordinary size": (Loss, lambda: (torch.ones(8, 32), torch.zeros(8, 32))),
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
