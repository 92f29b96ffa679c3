"""TVM: atanh(x) of a small x loses its digits. Exit status 1: the fault is there; 0: it is gone; 2: not checked."""
import sys
import traceback


def main():
    import numpy as np
    import tvm
    from tvm import relax

    print("tvm", tvm.__version__)
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType([4], "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit_output(builder.emit(relax.op.atanh(x)))
        builder.emit_func_output(y)
    machine = relax.VirtualMachine(tvm.compile(builder.get(), tvm.target.Target({"kind": "llvm"})), tvm.cpu())
    values = np.array([1e-9, 1e-6, 1e-3, 0.5], "float32")
    found, right = machine["main"](tvm.runtime.tensor(values)).numpy(), np.arctanh(values.astype("float64"))
    error = np.abs(found / right - 1)
    print("TVM gives", found, "right is", right, "relative error", error)
    return int(error.max() > 1e-5)


try:
    status = main()
except Exception:
    traceback.print_exc()
    status = 2
if status != 2:
    print("FAULT" if status else "NO FAULT")
sys.exit(status)
