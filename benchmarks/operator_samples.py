"""Prints the sources of PyTorch's operator samples: `python benchmarks/operator_samples.py [--every N]`.

`--every N`: every Nth operator by name, the first included.
"""

from __future__ import annotations

import argparse

from torch.testing._internal.common_methods_invocations import op_db


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1)
    every: int = parser.parse_args().every
    names = sorted({op.name for op in op_db if not op.name.startswith(("_refs", "ops.", "torch.ops"))})
    print(*(f"ops:{name}" for name in names[::every]))


if __name__ == "__main__":
    main()
