"""Tensor.maximum of NaN in tinygrad. Exit status 1: the fault is there; 0: gone; 2: not checked."""

import os
import sys
import traceback

os.environ["DEV"] = "CPU"


def main():
    from importlib.metadata import version

    import numpy as np
    from tinygrad import Tensor

    print("tinygrad", version("tinygrad"))
    number, nan = np.array([2], "float32"), np.array([np.nan], "float32")
    left, right = Tensor(nan).maximum(Tensor(number)).numpy(), Tensor(number).maximum(Tensor(nan)).numpy()
    print("maximum(nan, 2) is", left, "maximum(2, nan) is", right)
    fault = bool(np.isnan(left) != np.isnan(right))
    print("FAULT" if fault else "NO FAULT")
    return int(fault)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
