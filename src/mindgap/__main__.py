"""`python -m mindgap`."""

import sys

from mindgap.cli import main

if __name__ == "__main__":
    sys.exit(main())
