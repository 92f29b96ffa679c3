"""A row masked whole in OpenVINO's attention. Exit status 1: the fault is there; 0: gone; 2: not checked."""

import sys
import traceback


def main():
    import numpy as np
    import openvino as ov
    from openvino import opset13

    print("openvino", ov.__version__)
    given = [opset13.parameter([1, 1, 2, 4], np.float32) for _ in range(3)] + [opset13.parameter([1, 1, 2, 2], bool)]
    model = ov.Model([opset13.scaled_dot_product_attention(*given)], given)
    x = np.ones((1, 1, 2, 4), np.float32)
    mask = np.array([[[[False, False], [True, True]]]])
    found = ov.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})([x, x, x, mask])[0]
    print("the row that is masked whole:", found[0, 0, 0], "the other:", found[0, 0, 1])
    assert np.allclose(found[0, 0, 1], 1), "the other row is right"
    return int(not (found[0, 0, 0] == 0).all())


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    if status != 2:
        print("FAULT" if status else "NO FAULT")
    sys.exit(status)
