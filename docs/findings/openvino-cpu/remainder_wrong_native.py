"""OpenVINO's CPU plugin: Divide and FloorMod of int32 above 2**24 are computed in float32.

Exit status 1: the fault is there; 0: it is gone; 2: not checked.
"""
import sys
import traceback


def main():
    import numpy as np
    import openvino
    import openvino.opset14 as ops

    print("openvino", openvino.__version__)
    a, b = np.array([777777777, 1111111111, 1900000000, 7], "int32"), np.full(4, 11, "int32")
    wrong = 0
    for name, right in (("divide", a // b), ("floor_mod", a % b)):
        x, y = (ops.parameter([4], np.int32) for _ in range(2))
        model = openvino.Model([getattr(ops, name)(x, y)], [x, y], name)
        found = openvino.compile_model(model, "CPU")([a, b])[0]
        core = openvino.Tensor(np.zeros(4, "int32"))
        model.evaluate([core], [openvino.Tensor(a), openvino.Tensor(b)])
        print(name, "CPU:", found.tolist(), "without a device:", core.data.tolist(), "right:", right.tolist())
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
