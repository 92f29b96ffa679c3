"""Greater and GreaterEqual of NaN on OpenVINO's CPU plugin. Exit status 1: fault; 0: none; 2: not checked."""

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

    values = np.array([np.nan, 1, np.nan, 3], "float32")
    fault = False
    for name, make, right in (("Greater", op.greater, values > 2), ("GreaterEqual", op.greater_equal, values >= 2)):
        x = op.parameter([4], np.float32)
        (found,) = run([make(x, op.constant(np.float32(2)))], x, values)
        print(name, values.tolist(), "and 2:", found, "right:", right)
        if [*found[[1, 3]]] != [False, True]:
            raise RuntimeError(f"{name} of numbers gives {found}")
        fault |= bool(found[0] or found[2])
    print("FAULT" if fault else "NO FAULT")
    return int(fault)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
