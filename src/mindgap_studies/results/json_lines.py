"""A file of JSON objects, one a line, that a run appends to and a later run goes on with."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class JsonLines:
    """Appends records and reads them. A last line that was cut short is dropped. Threads may append at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()

    @property
    def begun(self) -> bool:
        return self.path.exists() and bool(self.path.stat().st_size)

    def read(self) -> list[str]:
        """Returns the lines, without one that was cut short. Raises `OSError` and `UnicodeDecodeError`."""
        return [line for line in self.path.read_text(encoding="utf-8").splitlines(keepends=True) if line.endswith("\n")]

    def cut(self) -> None:
        """Removes a last line without its end: the next record would otherwise be appended to it."""
        data = self.path.read_bytes()
        if not data.endswith(b"\n"):
            os.truncate(self.path, data.rfind(b"\n") + 1)

    def append(self, record: Mapping[str, Any]) -> None:
        """Adds a record; it survives any end of this process after the call."""
        line = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
        with self._lock, self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())
