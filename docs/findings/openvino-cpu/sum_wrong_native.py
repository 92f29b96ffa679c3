"""OpenVINO's CPU plugin: ReduceSum, ReduceMax and ReduceMin of int32 above 2**24 are computed in float32.

Exit status 1: the fault is there; 0: it is gone; 2: not checked.
"""
import sys
import traceback


def main():
    import numpy as np
    import openvino
    import openvino.opset14 as ops

    print("openvino", openvino.__version__)
    operands = [a] = [np.array([[16777217, 2], [16777219, 16777221]], "int32")]
    axis = ops.constant(np.array([1]))
    cases = [
        ("sum", lambda x: ops.reduce_sum(x, axis), a.sum(1, dtype="int32")),
        ("max", lambda x: ops.reduce_max(x, axis), a.max(1)),
        ("min", lambda x: ops.reduce_min(x, axis), a.min(1)),
    ]
    wrong = 0
    for name, build, right in cases:
        for shape in ([2, 2], [-1, -1]):
            inputs = [ops.parameter(shape, np.int32) for _ in operands]
            model = openvino.Model([build(*inputs)], inputs, name)
            found = openvino.compile_model(model, "CPU")(operands)[0]
            core = openvino.Tensor(np.zeros(right.shape, right.dtype))
            model.evaluate([core], [openvino.Tensor(each) for each in operands])
            print(name, shape, "CPU:", found.tolist(), "without a device:", core.data.tolist(), "right:", right.tolist())
            wrong += int((found != right).sum())
    return int(wrong > 0)


try:
    status = main()
except Exception:
    traceback.print_exc()
    status = 2
if status != 2:
    print("FAULT" if status else "NO FAULT")
sys.exit(status)
