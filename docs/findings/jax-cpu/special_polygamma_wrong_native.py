"""JAX: polygamma and zeta for x below -8. Exit status 1: the fault is there; 0: it is gone; 2: not checked."""
import os
import platform
import sys
import traceback

os.environ["JAX_PLATFORMS"] = "cpu"


def trigamma(half):
    """polygamma(1, -half - 0.5) by its recurrence, from polygamma(1, 0.5) = pi**2 / 2."""
    return 3.141592653589793**2 / 2 + sum(1 / (k + 0.5) ** 2 for k in range(half + 1))


def main():
    import jax
    import numpy as np

    jax.config.update("jax_enable_x64", True)
    print("jax", jax.__version__, platform.machine())
    worst = 0.0
    for dtype in (np.float32, np.float64):
        for half in (2, 9, 20):
            x, right = dtype(-half - 0.5), trigamma(half)
            for name, found in (
                ("polygamma(1, x)", float(jax.lax.polygamma(dtype(1), x))),
                ("zeta(2, x)", float(jax.lax.zeta(dtype(2), x))),
            ):
                error = abs(found - right) / right
                print(f"{dtype.__name__}: {name} at {x}: found {found:.9g}, right is {right:.9g}, error {error:.2g}")
                worst = max(worst, error)
    return int(worst > 1e-3)


try:
    status = main()
except Exception:
    traceback.print_exc()
    status = 2
if status != 2:
    print("FAULT" if status else "NO FAULT")
sys.exit(status)
