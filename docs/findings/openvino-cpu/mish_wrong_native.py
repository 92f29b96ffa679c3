"""Mish of negative numbers on OpenVINO's CPU plugin. Exit status 1: the fault is there; 0: gone; 2: not checked."""

import sys
import traceback


def main():
    import numpy as np
    import openvino as ov
    from openvino import opset14 as op

    print("openvino", ov.__version__)
    values = np.array([-20, -15, -12, -3, 3], "float32")
    x = op.parameter([len(values)], np.float32)
    compiled = ov.Core().compile_model(ov.Model([op.mish(x)], [x]), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    found = compiled([values])[0]
    wide = values.astype("float64")
    right = wide * np.tanh(np.log1p(np.exp(wide)))
    errors = np.abs(found / right - 1)
    for value, mine, other, error in zip(values, found, right, errors, strict=True):
        print(f"mish({value:g}): OpenVINO gives {mine:.9g}, right is {other:.9g}, relative error {error:.1e}")
    return int(errors.max() > 1e-3)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    if status != 2:
        print("FAULT" if status else "NO FAULT")
    sys.exit(status)
