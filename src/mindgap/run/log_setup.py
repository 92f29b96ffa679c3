"""Configures the logger `mindgap` of a process: the command line's, or a worker's."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from typing import Final, TextIO

#: The environment variable with the level. Worker processes inherit it.
VARIABLE: Final = "MINDGAP_LOG"
LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")
_FORMAT: Final = "%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"


def configure_logging(parent: int | None = None) -> None:
    """Writes log lines of at least the level in `MINDGAP_LOG` (default: WARNING) to standard error.

    `parent`: the process that started this worker. A worker writes to its parent's standard error where the system
    allows it: its own is kept for the last words of a crash. Raises `ValueError` for an unknown level.
    """
    level = os.environ.get(VARIABLE, "").upper() or "WARNING"
    if level not in LEVELS:
        raise ValueError(f"{VARIABLE}={os.environ[VARIABLE]}: it takes one of {', '.join(LEVELS)}")
    logger = logging.getLogger("mindgap")
    logger.setLevel(level)
    logger.handlers[:] = [logging.StreamHandler(_stream(parent))]
    logger.handlers[0].setFormatter(logging.Formatter(_FORMAT))
    logger.propagate = False


def _stream(parent: int | None) -> TextIO:
    if parent is not None:
        with contextlib.suppress(OSError):
            return open(f"/proc/{parent}/fd/2", "a", encoding="utf-8")  # open as long as the process lives
    return sys.stderr


def is_verbose() -> bool:
    """Whether `--verbose` was given, or `MINDGAP_LOG` asks for as much."""
    return os.environ.get(VARIABLE, "").upper() in ("INFO", "DEBUG")
