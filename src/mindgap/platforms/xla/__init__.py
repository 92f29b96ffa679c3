"""Holds the recipe of `xla/eager` and `xla/openxla`, and the step between PyTorch and XLA's code.

The platforms themselves are `mindgap.platforms.pytorch.eager:XLA` and `mindgap.platforms.pytorch.dynamo:XLA`.
"""

from pathlib import Path
from typing import Final

XLA_RECIPE: Final = Path(__file__).with_name("xla.toml")
