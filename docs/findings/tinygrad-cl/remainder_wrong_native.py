"""Tensor.__mod__ of floats in tinygrad. Exit status 1: the fault is there; 0: gone; 2: not checked."""

import os
import sys
import traceback

os.environ["DEV"] = "CL"


def main():
    from importlib.metadata import version

    import numpy as np
    from tinygrad import Tensor

    print("tinygrad", version("tinygrad"))
    x = np.arange(1, 129, dtype="float32")
    found = (Tensor(x) % Tensor(x)).numpy()
    print("x % x of 1 to 128 is not 0 at", x[found != 0], "found", found[found != 0])
    fault = bool((found != 0).any())
    print("FAULT" if fault else "NO FAULT")
    return int(fault)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
