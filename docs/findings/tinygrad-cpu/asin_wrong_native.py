"""Tensor.asin in tinygrad. Exit status 1: the fault is there; 0: gone; 2: not checked."""

import os
import sys
import traceback

os.environ["DEV"] = "CPU"


def main():
    from importlib.metadata import version

    import numpy as np
    from tinygrad import Tensor

    print("tinygrad", version("tinygrad"))
    x = np.array([1e-9, 1e-6, 1e-3, 0.5], "float32")
    found, right = Tensor(x).asin().numpy(), np.arcsin(x.astype("float64"))
    error = np.abs(found / right - 1)
    print("x", x, "found", found, "right", right, "relative error", error)
    fault = error.max() > 0.001
    print("FAULT" if fault else "NO FAULT")
    return int(fault)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
