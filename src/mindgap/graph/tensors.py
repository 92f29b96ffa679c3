"""Stores tensors too large for a graph's bytes in files named by their content."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Final

import zstandard

from mindgap.graph.errors import GraphError
from mindgap.graph.spec import Array, dtype_name
from mindgap.graph.tensor_cache import use
from mindgap.graph.tensor_file import bytes_of, read_tensor, write_tensor

_KEY: Final = re.compile(r"[0-9a-f]{64}")


def tensor_key(array: Array) -> str:
    """Returns a tensor's name: the SHA-256, in hex, of its dtype, its shape and its row-major bytes.

    Raises `GraphError` for a dtype that graphs do not hold.
    """
    name = _name_of(array)
    hashed = hashlib.sha256(f"{name}{list(array.shape)}".encode())
    hashed.update(bytes_of(array))
    return hashed.hexdigest()


def is_tensor_key(key: str) -> bool:
    """Returns whether it has the form of a `tensor_key`: 64 lower-case hex digits."""
    return _KEY.fullmatch(key) is not None


class TensorStore:
    """A directory with a file `<key>.safetensors` for each tensor. Any number of processes may share it.

    A tensor that compresses well is in its file as the bytes of a zstd frame, `packed` in the metadata.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def put(self, array: Array) -> str:
        """Stores the tensor and returns its key. Does nothing if it is stored already.

        Raises `GraphError` if the directory cannot be written.
        """
        key = tensor_key(array)
        if key in self:
            return key
        try:
            self._write(key, lambda file: write_tensor(file, array))
        except OSError as error:
            raise GraphError(
                f"tensors cannot be written to {self.path}: {error.strerror}; MINDGAP_HOME names another directory"
            ) from None
        return key

    def adopt(self, key: str, write: Callable[[IO[bytes]], object]) -> None:
        """Stores the file of a tensor that another store held. `write` writes its content.

        Raises `GraphError` for a content that is damaged or another tensor's; the store is then as it was.
        """
        self._write(key, write)
        try:
            self.get(key)
        except GraphError:
            self.remove(key)
            raise

    def get(self, key: str) -> Array:
        """Reads the tensor with this key; maps a large one: processes share its memory until they write to it.

        Raises `GraphError` if it is missing or its file is damaged.
        """
        file = self.file(key)
        try:
            array = read_tensor(file)
            intact = tensor_key(array) == key
        except (zstandard.ZstdError, KeyError, ValueError, TypeError, OSError) as error:
            raise GraphError(f"tensor file {file} cannot be read ({error}): copy it again") from None
        if not intact:
            raise GraphError(f"tensor file {file} does not hold what its name promises: copy it again")
        return array

    def copy(self, keys: Iterable[str], source: TensorStore) -> None:
        """Copies tensors from another store. Raises `GraphError` for one that is missing or damaged."""
        for key in keys:
            if key not in self and self.put(source.get(key)) != key:
                raise GraphError(f"tensor {key} of {source.path} is another than its key says")

    def file(self, key: str) -> Path:
        """The file of a tensor. Raises `GraphError` if there is none."""
        file = self._file(key)
        if not self._touched(file):
            raise GraphError(
                f"no tensor {key} in {self.path}: copy it there, or capture the model again into one file that holds "
                "its tensors (mindgap capture SOURCE -o FILE.mindgap)"
            )
        return file

    def remove(self, key: str) -> None:
        """Removes a tensor's file, if there is one."""
        self._file(key).unlink(missing_ok=True)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and is_tensor_key(key) and self._touched(self._file(key))

    def _touched(self, file: Path) -> bool:
        """Whether the file exists. Sets the time of its last use, by which a full cache decides what to keep."""
        try:
            os.utime(file)
        except FileNotFoundError:
            return False
        except OSError:
            # A directory of somebody else's, or a read-only one: nothing is removed from it.
            return file.is_file()
        return True

    def _write(self, key: str, write: Callable[[IO[bytes]], object]) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=self.path, prefix=".put-")
        try:
            with os.fdopen(handle, "wb") as file:
                write(file)
            os.replace(temporary, self._file(key))
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def _file(self, key: str) -> Path:
        if not is_tensor_key(key):
            raise GraphError(f"{key!r} is no tensor key: it should be 64 lower-case hex digits")
        return self.path / f"{key}.safetensors"


class PendingTensors(TensorStore):
    """Tensors in memory under their keys, until `keep` writes some of them to the directory of another store.

    For graphs that may be dropped later. Tensors that are not in memory are looked up in the directory.
    """

    def __init__(self, kept: TensorStore) -> None:
        super().__init__(kept.path)
        self._arrays: dict[str, Array] = {}

    def put(self, array: Array) -> str:
        """Holds the tensor in memory and returns its key. The caller must not write to it before `keep`."""
        key = tensor_key(array)
        self._arrays.setdefault(key, array)
        return key

    def get(self, key: str) -> Array:
        return self._arrays[key] if key in self._arrays else super().get(key)

    def __contains__(self, key: object) -> bool:
        return key in self._arrays or super().__contains__(key)

    def keep(self, keys: Iterable[str]) -> None:
        """Writes these tensors to the directory. Raises `GraphError` for one that is missing, or was written to."""
        TensorStore(self.path).copy(keys, self)


def default_tensor_store() -> TensorStore:
    """Returns the user's store, in `home()`. What this process uses of it stays until the process ends.

    Raises `MindgapError` where `MINDGAP_CACHE_GIB`, the limit on its size, is no number.
    """
    folder = home() / "tensors"
    use(folder)
    return TensorStore(folder)


def home() -> Path:
    """Returns the directory of the user's caches: `$MINDGAP_HOME`, or else in the cache directory of the system."""
    home = os.environ.get("MINDGAP_HOME")
    return Path(home) if home else _cache_directory()


def _cache_directory() -> Path:
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "mindgap"


def _name_of(array: Array) -> str:
    try:
        return dtype_name(array.dtype)
    except KeyError:
        raise GraphError(f"a graph cannot hold a tensor of dtype {array.dtype}") from None
