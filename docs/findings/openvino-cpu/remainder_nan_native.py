"""FloorMod and Mod with a large quotient, and by infinity, on OpenVINO's CPU plugin. Exit status 1: fault; 0: none; 2: not checked."""

import sys
import traceback


def main():
    import numpy as np
    import openvino as ov
    from openvino import opset13 as op

    print("openvino", ov.__version__)
    dividends = np.array([1e9, 1e5, 5, -5, 7], "float32")
    divisors = np.array([7, 0.3, np.inf, -np.inf, 3], "float32")
    right = np.fmod(dividends.astype("float64"), divisors.astype("float64"))  # of equal signs: the remainder too
    fault = False
    for name, make in (("FloorMod", op.floor_mod), ("Mod", op.mod)):
        x, y = op.parameter([5], np.float32), op.parameter([5], np.float32)
        compiled = ov.Core().compile_model(ov.Model([make(x, y)], [x, y]), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        (found,) = compiled([dividends, divisors]).values()
        print(f"{name} of {dividends} and {divisors}: {found}, right: {right}")
        if found[4] != 1:
            raise RuntimeError(f"{name} of 7 and 3 gives {found[4]}")
        fault |= not np.allclose(found, right, rtol=1e-4, atol=0)
    print("FAULT" if fault else "NO FAULT")
    return int(fault)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
