"""Names the passes of the runtime's version in a platform's environment."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from typing import Final

from mindgap.platforms.environments import find
from mindgap.platforms.name import PlatformName

_SECONDS: Final = 60.0


def names_there(platform: PlatformName, module: str) -> tuple[str, ...]:
    """The names that a module of mindgap prints in the platform's environment; none where it fails there."""
    return _printed(platform.environment or "", module)


@cache
def _printed(environment: str, module: str) -> tuple[str, ...]:
    command = find(environment).command(module) if environment else [sys.executable, "-P", "-m", module]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False)
    return tuple(json.loads(done.stdout)) if done.returncode == 0 else ()
