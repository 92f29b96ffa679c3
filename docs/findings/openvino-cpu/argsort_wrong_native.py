"""TopK of a row with NaN on OpenVINO's CPU plugin. Exit status 1: the fault is there; 0: gone; 2: not checked."""

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

    x = op.parameter([1, 4], np.float32)
    values = np.array([[0, np.nan, 2, 1]], "float32")
    node = op.topk(x, op.constant(np.int64(4)), 1, "max", "value")
    found, _ = run([node.output(0), node.output(1)], x, values)
    finite = found[np.isfinite(found)]
    print("row", values, "sorted:", found)
    fault = finite.tolist() != sorted(finite.tolist(), reverse=True)  # wherever NaN is placed, finite values must be in order
    print("FAULT" if fault else "NO FAULT")
    return int(fault)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
