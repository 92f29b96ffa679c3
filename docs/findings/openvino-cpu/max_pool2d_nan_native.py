"""OpenVINO's CPU plugin: MaxPool of a window with NaN.

Exit status 1: the fault is there; 0: it is gone; 2: not checked.
"""
import sys
import traceback


def main():
    import numpy as np
    import openvino
    import openvino.opset14 as ops

    print("openvino", openvino.__version__)
    nan = np.nan
    x = np.array([[[[nan, 1, nan, nan, -np.inf, -np.inf], [2, 3, nan, nan, -np.inf, -np.inf]]]], "float32")
    given = ops.parameter([1, 1, 2, 6], np.float32)
    pooled = ops.max_pool(given, [2, 2], [1, 1], [0, 0], [0, 0], [2, 2])
    model = openvino.Model([pooled.output(0)], [given], "max_pool")
    found = openvino.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})([x])[0].ravel()
    print("windows of NaN, 1, 2, 3; of NaN; of -inf:", found.tolist(), "right: nan, nan, -inf")
    return int(not (np.isnan(found[:2]).all() and found[2] == -np.inf))


try:
    status = main()
except Exception:
    traceback.print_exc()
    status = 2
if status != 2:
    print("FAULT" if status else "NO FAULT")
sys.exit(status)
