"""Makes the temporary directory that all workers of a pool share."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

import psutil

from mindgap.graph import MindgapError

_PREFIX: Final = "mindgap-shared-"


def make_shared() -> Path:
    """Makes a directory that only this user can read. Removes directories of processes that have ended.

    Raises `MindgapError` where no temporary directory can be written.
    """
    try:
        parent = Path(tempfile.gettempdir())
    except FileNotFoundError as error:
        raise MindgapError(f"{error.strerror or error}: TMPDIR names another") from None
    for old in parent.glob(f"{_PREFIX}*"):
        pid = old.name.removeprefix(_PREFIX).split("-")[0]
        if pid.isdecimal() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(old, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
