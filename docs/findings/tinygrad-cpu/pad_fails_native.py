"""Tensor.pad of an empty batch in tinygrad. Exit status 1: the fault is there; 0: gone; 2: not checked."""

import os
import sys
import traceback

os.environ["DEV"] = "CPU"


def main():
    from importlib.metadata import version

    import numpy as np
    from tinygrad import Tensor

    print("tinygrad", version("tinygrad"))
    fault = False
    for mode in ("constant", "reflect"):
        try:
            print(mode, "gives", Tensor.empty(0, 3, 3).pad(((0, 0), (0, 0), (1, 1)), mode=mode).shape)
        except ValueError as problem:
            print(mode, "fails:", problem)
            if "should be less than the input size" not in str(problem):
                raise
            fault = True
    print("FAULT" if fault else "NO FAULT")
    return int(fault)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
