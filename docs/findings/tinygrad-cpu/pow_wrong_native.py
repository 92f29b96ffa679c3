"""Tensor.__pow__ of int32 in tinygrad. Exit status 1: the fault is there; 0: gone; 2: not checked."""

import os
import sys
import traceback

os.environ["DEV"] = "CPU"


def main():
    from importlib.metadata import version

    import numpy as np
    from tinygrad import Tensor

    print("tinygrad", version("tinygrad"))
    x = np.array([5001, 46339, 1001], "int32")
    found, right = (Tensor(x) ** 2).numpy(), x**2
    tensors, right_tensors = (Tensor(x[2:]) ** Tensor(np.array([3], "int32"))).numpy(), x[2:] ** 3
    print("x ** 2 is", found, "right is", right, "of two tensors", tensors, "right is", right_tensors)
    fault = bool((found != right).any() or (tensors != right_tensors).any())
    print("FAULT" if fault else "NO FAULT")
    return int(fault)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
