"""OpenVINO's CPU plugin: Divide of 8-bit integers with a dynamic shape rounds to the nearest integer.

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
    for dtype in (np.uint8, np.int8):
        a, b = np.array([1, 3, 5, 7, 100, 127], dtype), np.array([2, 2, 3, 4, 3, 2], dtype)
        for size in (6, -1):
            x, y = (ops.parameter(openvino.PartialShape([size]), dtype) for _ in range(2))
            model = openvino.Model([ops.divide(x, y)], [x, y], "divide")
            found = openvino.compile_model(model, "CPU")([a, b])[0]
            print(np.dtype(dtype).name, f"shape [{size}]:", found.tolist(), "right:", (a // b).tolist())
            wrong += int((found != a // b).sum())
    return int(wrong > 0)


try:
    status = main()
except Exception:
    traceback.print_exc()
    status = 2
if status != 2:
    print("FAULT" if status else "NO FAULT")
sys.exit(status)
