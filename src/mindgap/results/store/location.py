"""Reads and publishes the files of a store, in a local directory or through fsspec.

Publishing is atomic. Locally it is a temporary file in the same directory, `fsync`, a rename, and `fsync` of the
directory. An object store (and fsspec's memory) shows an object when its upload is complete, so it is put under
its name at once, and no bucket is made. Any other filesystem gets a temporary file and a move, which is as atomic as
that filesystem's move; see docs/campaigns/README.md.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Final, Protocol

from mindgap.results.store.errors import StoreError

#: `.tmp-HOST-PID-RANDOM`. It ends in nothing that a reader looks for.
_TEMPORARY: Final = re.compile(r"\.tmp-(?P<host>.*)-(?P<pid>\d+)-[0-9a-f]{8}")
#: A temporary file of a process that cannot be checked is a leftover after this long.
_STALE_S: Final = 86_400.0
#: How often a directory is listed while files of it are compacted away.
_LISTINGS: Final = 8
#: Errors that client libraries of object stores raise as they are.
_CLIENT_ERRORS: Final = {
    "botocore.exceptions": ("BotoCoreError", "ClientError"),
    "aiohttp": ("ClientError",),
}
#: Filesystems on which an upload appears whole.
_ATOMIC: Final = frozenset({"memory", "s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oci", "oss"})

#: Filesystems on which a file can be created only if it is new (S3: `If-None-Match`).
_CREATES: Final = frozenset({"memory", "s3", "s3a", "gs", "gcs"})


class StoreLocation(Protocol):
    """Files by name relative to the root, with `/` between directories. Published files never change."""

    def url(self, name: str = "") -> str:
        """Returns the full name, for messages and for DuckDB."""
        ...

    def names(self, directory: str) -> list[str]:
        """Lists the files of a directory by full relative name, sorted; without temporary files and directories."""
        ...

    def sizes(self, directory: str) -> dict[str, int]:
        """Returns the bytes of each of these files."""
        ...

    def directories(self, directory: str) -> list[str]: ...

    def read(self, name: str) -> bytes | None:
        """Returns the file's bytes, None if it does not exist."""
        ...

    def exists(self, name: str) -> bool: ...

    def open(self, name: str) -> BinaryIO: ...

    def publish(self, name: str, data: bytes) -> None:
        """Publishes a file atomically. Raises `StoreError`."""
        ...

    def create(self, name: str, data: bytes) -> bool:
        """Publishes a file under a name that nothing has. Returns False, and changes nothing, where something has it.

        Of several processes that do this at once, one gets True. Raises `StoreError`, also for a filesystem that cannot
        do it.
        """
        ...

    def remove(self, name: str) -> None: ...

    def clean(self) -> int:
        """Removes temporary files of killed writers. Returns how many."""
        ...


def location_at(path: str | Path) -> tuple[StoreLocation, Any]:
    """Returns the location, and the fsspec filesystem through which DuckDB reads it (None for a local one)."""
    if isinstance(path, str) and "://" in path and not path.startswith(("file://", "local://")):
        import fsspec

        try:
            filesystem, root = fsspec.core.url_to_fs(path)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] # fsspec has no types
        except (ImportError, ValueError) as error:
            raise StoreError(f"{path} cannot be reached: {error}{_extra(path)}") from None
        return RemoteLocation(filesystem, str(root), path), filesystem  # pyright: ignore[reportUnknownArgumentType] # as above
    text = str(path)
    return LocalLocation(Path(text.removeprefix("file://").removeprefix("local://"))), None


class LocalLocation:
    """A directory of this machine, or of a network filesystem that it has mounted."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def url(self, name: str = "") -> str:
        return str(self.root / name) if name else str(self.root)

    def names(self, directory: str) -> list[str]:
        return sorted(f"{directory}/{e.name}" if directory else e.name for e in self._entries(directory) if _is_file(e))

    def sizes(self, directory: str) -> dict[str, int]:
        for _ in range(_LISTINGS):
            # Where one is compacted away meanwhile, its rows are in a file that may not be listed: listed again.
            with suppress(FileNotFoundError):
                return {name: (self.root / name).stat().st_size for name in self.names(directory)}
        raise StoreError(f"{self.url(directory)} cannot be listed: its files are replaced all the time; try again")

    def directories(self, directory: str) -> list[str]:
        return sorted(f"{directory}/{e.name}" if directory else e.name for e in self._entries(directory) if e.is_dir())

    def read(self, name: str) -> bytes | None:
        try:
            return (self.root / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise StoreError(f"{self.url(name)} cannot be read: {error.strerror}") from None

    def exists(self, name: str) -> bool:
        return (self.root / name).is_file()

    def open(self, name: str) -> BinaryIO:
        return (self.root / name).open("rb")

    def publish(self, name: str, data: bytes) -> None:
        self._placed(name, data, _rename)

    def create(self, name: str, data: bytes) -> bool:
        return self._placed(name, data, _link)

    def remove(self, name: str) -> None:
        (self.root / name).unlink(missing_ok=True)

    def clean(self) -> int:
        removed = 0
        for directory, _, files in os.walk(self.root):
            for file in files:
                with suppress(OSError):
                    path = Path(directory, file)
                    if _is_leftover(file, path):
                        path.unlink()
                        removed += 1
        return removed

    def _placed(self, name: str, data: bytes, move: Callable[[Path, Path], bool]) -> bool:
        path = self.root / name
        try:
            try:
                return _place(path, data, move)
            except FileNotFoundError:
                # Another process took our temporary file for a leftover, as with a separate process table.
                return _place(path, data, move)
        except OSError as error:
            raise StoreError(_unwritten(self.url(name), len(data), error)) from None

    def _entries(self, directory: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(self.root / directory) as entries:
                return list(entries)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(f"{self.url(directory)} cannot be listed: {error.strerror}") from None


class RemoteLocation:
    """A directory behind an fsspec URL (`s3://bucket/store`, `memory://store`)."""

    def __init__(self, filesystem: Any, root: str, url: str) -> None:
        self._fs = filesystem
        self._root = root.rstrip("/")
        self._url = url.rstrip("/")
        protocols = {filesystem.protocol} if isinstance(filesystem.protocol, str) else {*filesystem.protocol}
        self._atomic = not _ATOMIC.isdisjoint(protocols)
        self._creates = not _CREATES.isdisjoint(protocols)

    def url(self, name: str = "") -> str:
        return f"{self._url}/{name}" if name else self._url

    def names(self, directory: str) -> list[str]:
        return list(self.sizes(directory))

    def sizes(self, directory: str) -> dict[str, int]:
        return {
            name: size for name, kind, size in self._entries(directory) if kind == "file" and not _is_temporary(name)
        }

    def directories(self, directory: str) -> list[str]:
        return [name for name, kind, _ in self._entries(directory) if kind == "directory"]

    def read(self, name: str) -> bytes | None:
        try:
            return self._fs.cat_file(self._path(name))
        except FileNotFoundError:
            return None
        except remote_errors() as error:
            raise StoreError(f"{self.url(name)} cannot be read: {_reason(error)}") from None

    def exists(self, name: str) -> bool:
        try:
            return bool(self._fs.isfile(self._path(name)))
        except remote_errors() as error:
            raise StoreError(f"{self.url(name)} cannot be read: {_reason(error)}") from None

    def open(self, name: str) -> BinaryIO:
        return self._fs.open(self._path(name), "rb")

    def publish(self, name: str, data: bytes) -> None:
        path = PurePosixPath(self._path(name))
        try:
            if self._atomic:
                self._fs.pipe_file(str(path), data)
                return
            self._fs.makedirs(str(path.parent), exist_ok=True)
            temporary = str(path.with_name(_temporary_name()))
            self._fs.pipe_file(temporary, data)
            self._fs.mv(temporary, str(path))
        except remote_errors() as error:
            raise StoreError(_unwritten(self.url(name), len(data), error)) from None

    def create(self, name: str, data: bytes) -> bool:
        if not self._creates:
            raise StoreError(
                f"{self._url}: a file cannot be created there only if it is new ({', '.join(sorted(_CREATES))} can)"
            )
        path = PurePosixPath(self._path(name))
        try:
            self._fs.pipe_file(str(path), data, mode="create")
        except FileExistsError:
            return False
        except remote_errors() as error:
            raise StoreError(_unwritten(self.url(name), len(data), error)) from None
        return True

    def remove(self, name: str) -> None:
        try:
            self._fs.rm_file(self._path(name))
        except FileNotFoundError:
            pass
        except remote_errors() as error:
            raise StoreError(f"{self.url(name)} cannot be removed: {_reason(error)}") from None

    def clean(self) -> int:
        # Whether a writer elsewhere is alive is unknown, so its leftovers stay; readers pass them over.
        return 0

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def _entries(self, directory: str) -> list[tuple[str, str, int]]:
        try:
            self._fs.invalidate_cache(self._path(directory))
            listed: list[dict[str, Any]] = self._fs.ls(self._path(directory), detail=True)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except remote_errors() as error:
            raise StoreError(f"{self.url(directory)} cannot be listed: {_reason(error)}") from None
        return sorted(
            (f"{directory}/{leaf}" if directory else leaf, str(entry["type"]), int(entry["size"] or 0))
            for entry in listed
            if (leaf := str(entry["name"]).rstrip("/").rpartition("/")[2])
        )


def _place(path: Path, data: bytes, move: Callable[[Path, Path], bool]) -> bool:
    """Writes a temporary file next to the path, and moves it there. Returns whether `move` did so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(_temporary_name())
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        moved = move(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    if moved:
        _sync_directory(path.parent)
    return moved


def _rename(temporary: Path, path: Path) -> bool:
    temporary.rename(path)
    return True


def _link(temporary: Path, path: Path) -> bool:
    """Unlike a rename, a link does not replace what is there."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    return True


def _sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _temporary_name() -> str:
    return f".tmp-{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"


def _is_temporary(name: str) -> bool:
    return name.rpartition("/")[2].startswith(".tmp-")


def _is_file(entry: os.DirEntry[str]) -> bool:
    return not _is_temporary(entry.name) and entry.is_file()


def _is_leftover(name: str, path: Path) -> bool:
    """Returns whether a temporary file's writer is gone: dead on this machine, or idle for a day elsewhere."""
    match = _TEMPORARY.fullmatch(name)
    if match is None:
        return False
    if match["host"] == socket.gethostname():
        try:
            os.kill(int(match["pid"]), 0)
        except ProcessLookupError:
            return True
        except OSError:
            pass
    return time.time() - path.stat().st_mtime > _STALE_S


def remote_errors() -> tuple[type[Exception], ...]:
    """Returns the errors of a filesystem behind a URL. Those of a client library are added to `OSError`."""
    errors: list[type[Exception]] = [OSError]
    for module, names in _CLIENT_ERRORS.items():
        # What is not imported has raised nothing.
        if module in sys.modules:
            errors += [getattr(sys.modules[module], name) for name in names]
    return tuple(errors)


def _reason(error: Exception) -> str:
    """Returns why a filesystem behind a URL failed, in one line: the cause that a client library wrapped, too."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split()).rstrip(".")


def _unwritten(url: str, size: int, error: Exception) -> str:
    advice = "name one that is there, or make it"
    if isinstance(error, PermissionError):
        advice = "the credentials need the right to read, list, write and delete there"
    elif not isinstance(error, FileNotFoundError):
        advice = "make room and go on" if isinstance(error, OSError) else "see that it is reached, and go on"
    return f"{url} cannot be written ({size} bytes): {_reason(error)}; what was published before is intact: {advice}"


def _extra(url: str) -> str:
    """Returns what to install for the filesystem of a URL, if mindgap names it."""
    return " (pip install 'mindgap[s3]')" if url.startswith(("s3://", "s3a://")) else ""
