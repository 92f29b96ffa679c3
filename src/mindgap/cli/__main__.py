"""`python -m mindgap.cli`."""

import sys

from mindgap.cli import main

sys.exit(main())
