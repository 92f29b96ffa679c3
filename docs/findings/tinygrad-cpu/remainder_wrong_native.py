"""Tensor.__mod__ of floats in tinygrad. Exit status 1: the fault is there; 0: gone; 2: not checked."""

import os
import sys
import traceback

os.environ["DEV"] = "CPU"


def main():
    from importlib.metadata import version

    import numpy as np
    from tinygrad import Tensor

    print("tinygrad", version("tinygrad"))
    x = np.arange(1, 129, dtype="float32")
    found = (Tensor(x) % 41.0).numpy()
    wrong = found != np.fmod(x, np.float32(41))
    print("x % 41.0 is wrong for x of", x[wrong], "found", found[wrong])
    fault = bool(wrong.any())
    print("FAULT" if fault else "NO FAULT")
    return int(fault)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
