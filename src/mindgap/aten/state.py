"""Holds the lock for PyTorch's process-wide state: the default dtype, dispatch modes, global flags."""

from __future__ import annotations

import threading
from typing import Final

#: Held by whoever changes that state, and by whoever depends on it being untouched (capture builds models under it).
TORCH_STATE: Final = threading.RLock()
