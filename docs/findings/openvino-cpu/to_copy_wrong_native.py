"""Conversion to bfloat16 with a dynamic shape on OpenVINO's CPU plugin. Exit status 1: the fault is there; 0: gone; 2: not checked."""

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

    values = np.array([1.4754109, 0.55, 3.1415, -2.718], "float32")
    found = {}
    for size in (4, -1):
        x = op.parameter([size], np.float32)
        (found[size],) = run([op.convert(op.convert(x, "bf16"), "f32")], x, values)
        print("shape", [size], "gives", found[size], "of", values)
    fault = (np.abs(found[-1] - values) > np.abs(found[4] - values)).any()
    print("FAULT" if fault else "NO FAULT")
    return int(fault)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
