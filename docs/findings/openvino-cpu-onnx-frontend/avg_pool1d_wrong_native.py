"""AvgPool whose last window goes beyond the padding (OpenVINO, CPU). Exit status 1: the fault is there; 0: gone; 2: not checked."""

import sys
import traceback


def main():
    import numpy as np
    import openvino as ov
    from openvino import opset14 as op

    print("openvino", ov.__version__)
    wrong = 0
    for size, right in ((2, [2 / 3, 1 / 2]), (8, [2 / 3, 1, 1, 1, 1 / 2]), (9, [2 / 3, 1, 1, 1, 2 / 3])):
        x = op.parameter([1, 1, size], np.float32)
        # Kernel 3, stride 2, padding 1 on both sides, which counts: the divisor is the number of padded elements.
        model = ov.Model([op.avg_pool(x, [2], [1], [1], [3], False, "ceil_torch")], [x])
        compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        found = compiled([np.ones((1, 1, size), "float32")])[0].ravel()
        off = len(found) != len(right) or np.abs(found - np.array(right)).max() > 1e-5
        print(f"{size} ones: OpenVINO gives", found, "right is", np.array(right, "float32"), "wrong" if off else "right")
        wrong += off
    return int(wrong > 0)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    if status != 2:
        print("FAULT" if status else "NO FAULT")
    sys.exit(status)
