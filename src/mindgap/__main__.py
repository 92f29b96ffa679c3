"""`python -m mindgap`."""

import sys

from mindgap.cli import main

sys.exit(main())
