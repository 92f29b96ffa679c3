"""ReduceMax of -inf only on OpenVINO's CPU plugin. Exit status 1: the fault is there; 0: gone; 2: not checked."""

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

    x = op.parameter([2, 3], np.float32)
    values = np.array([[-np.inf, -np.inf, -np.inf], [-np.inf, 1, 3]], "float32")
    (found,) = run([op.reduce_max(x, op.constant(np.array([1])))], x, values)
    print("rows", values.tolist(), "greatest:", found, "right:", values.max(1))
    if found[1] != 3:
        raise RuntimeError(f"the second row gives {found[1]}")
    fault = found[0] != -np.inf
    print("FAULT" if fault else "NO FAULT")
    return int(fault)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
