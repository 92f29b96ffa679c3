"""FloorMod and Mod by infinity on OpenVINO's CPU plugin. Exit status 1: fault; 0: none; 2: not checked."""

import sys
import traceback


def main():
    import numpy as np
    import openvino as ov
    from openvino import opset13 as op

    print("openvino", ov.__version__)
    dividends = np.array([5, -5, 0, 7], "float32")
    divisors = np.array([np.inf, -np.inf, np.inf, 3], "float32")
    fault = False
    for name, make in (("FloorMod", op.floor_mod), ("Mod", op.mod)):
        x, y = op.parameter([4], np.float32), op.parameter([4], np.float32)
        compiled = ov.Core().compile_model(ov.Model([make(x, y)], [x, y]), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        (found,) = compiled([dividends, divisors]).values()
        print(f"{name} of {dividends} and {divisors}: {found}, right: {[5, -5, 0, 1]}")
        if found[3] != 1:
            raise RuntimeError(f"{name} of 7 and 3 gives {found[3]}")
        fault |= not np.array_equal(found[:3], dividends[:3])
    print("FAULT" if fault else "NO FAULT")
    return int(fault)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
