"""TVM: a product of two bool tensors does not compile. Exit status 1: the fault is there; 0: it is gone; 2: not checked."""
import sys
import traceback


def main():
    import numpy as np
    import tvm
    from tvm import relax

    def run(operator):
        builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType([2], "bool"))
        with builder.function("main", [x]):
            with builder.dataflow():
                y = builder.emit_output(builder.emit(operator(x, x)))
            builder.emit_func_output(y)
        program = tvm.compile(builder.get(), tvm.target.Target({"kind": "llvm"}))
        return relax.VirtualMachine(program, tvm.cpu())["main"](tvm.runtime.tensor(np.array([True, False]))).numpy()

    print("tvm", tvm.__version__)
    print("logical_and gives", run(relax.op.logical_and))
    try:
        found = run(relax.op.multiply)
    except Exception as problem:
        print("multiply fails:", type(problem).__name__, str(problem)[-200:])
        if "MatchesCode" not in str(problem):
            raise
        return 1
    print("multiply gives", found)
    return 0


try:
    status = main()
except Exception:
    traceback.print_exc()
    status = 2
if status != 2:
    print("FAULT" if status else "NO FAULT")
sys.exit(status)
