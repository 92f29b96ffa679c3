"""Platforms `xla/eager` and `xla/openxla`: torch_xla, by PyTorch's backends of a device.

`intermediate` has the step between PyTorch and XLA's code.
"""

from pathlib import Path
from typing import Final

from mindgap.platforms.pytorch.device.devices import DEVICES
from mindgap.platforms.pytorch.dynamo import DynamoBackend
from mindgap.platforms.pytorch.eager import EagerBackend
from mindgap_runtimes.xla.stages import xla_stage

_RECIPE: Final = Path(__file__).with_name("xla.toml")
EAGER: Final = EagerBackend(DEVICES["xla"], xla_stage, _RECIPE)
OPENXLA: Final = DynamoBackend(DEVICES["xla"], recipe=_RECIPE, compiler="openxla")
