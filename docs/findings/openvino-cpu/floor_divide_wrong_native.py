"""OpenVINO's CPU plugin: Divide with m_pythondiv rounds toward zero.

Exit status 1: the fault is there; 0: it is gone; 2: not checked.
"""
import sys
import traceback


def main():
    import numpy as np
    import openvino
    import openvino.opset14 as ops

    print("openvino", openvino.__version__)
    wrong = 0
    for dtype in (np.int32, np.int64):
        x, y = (ops.parameter([6], dtype) for _ in range(2))
        model = openvino.Model([ops.divide(x, y)], [x, y], "divide")  # m_pythondiv is true by default
        a, b = np.array([-7, 7, -20, 20, -1, 7], dtype), np.array([2, 2, 3, -3, 7, -2], dtype)
        found = openvino.compile_model(model, "CPU")([a, b])[0]
        core = openvino.Tensor(np.zeros(6, dtype))
        model.evaluate([core], [openvino.Tensor(a), openvino.Tensor(b)])
        right = a // b
        print(np.dtype(dtype).name, "CPU:", found.tolist(), "without a device:", core.data.tolist(), "right:", right.tolist())
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
