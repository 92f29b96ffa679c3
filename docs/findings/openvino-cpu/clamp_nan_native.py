"""Clamp, Relu and Minimum of NaN on OpenVINO's CPU plugin. Exit status 1: fault; 0: none; 2: not checked."""

import sys
import traceback


def main():
    import numpy as np
    import openvino as ov
    from openvino import opset13 as op

    print("openvino", ov.__version__)

    def run(results, parameter, values):
        model = ov.Model(results, [parameter])
        return [*ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})([values]).values()]

    values = np.array([np.nan, 1, 9], "float32")
    fault = False
    for name, make, right in (
        ("Clamp", lambda x: op.clamp(x, 0.0, 6.0), [1, 6]),
        ("Relu", op.relu, [1, 9]),
        ("Minimum", lambda x: op.minimum(x, op.constant(np.float32(2))), [1, 2]),
    ):
        x = op.parameter([3], np.float32)
        (found,) = run([make(x)], x, values)
        print(name, values.tolist(), "found:", found, "right: nan", *right)
        if [*found[1:]] != right:
            raise RuntimeError(f"{name} of numbers gives {found}")
        fault |= not np.isnan(found[0])
    print("FAULT" if fault else "NO FAULT")
    return int(fault)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
