"""TVM: argmax and argmin give -1. Exit status 1: the fault is there; 0: it is gone; 2: not checked."""
import sys
import traceback


def main():
    import numpy as np
    import tvm
    from tvm import relax

    def run(operator, values):
        builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType(values.shape, str(values.dtype)))
        with builder.function("main", [x]):
            with builder.dataflow():
                y = builder.emit_output(builder.emit(operator(x, 1)))
            builder.emit_func_output(y)
        program = tvm.compile(builder.get(), tvm.target.Target({"kind": "llvm"}))
        return relax.VirtualMachine(program, tvm.cpu())["main"](tvm.runtime.tensor(values)).numpy()

    print("tvm", tvm.__version__)
    wrong = 0
    for operator, right, values in (
        (relax.op.argmax, np.argmax, np.array([[0, 0, 0], [0, 1, 0]], "uint8")),
        (relax.op.argmin, np.argmin, np.array([[np.inf, np.inf], [1, np.inf]], "float32")),
    ):
        found, expected = run(operator, values), right(values, 1)
        print("TVM gives", found, "right is", expected, "wrong:", int((found != expected).sum()), "of", found.size)
        wrong += int((found != expected).sum())
    return int(wrong > 0)


try:
    status = main()
except Exception:
    traceback.print_exc()
    status = 2
if status != 2:
    print("FAULT" if status else "NO FAULT")
sys.exit(status)
