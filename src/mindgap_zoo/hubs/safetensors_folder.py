"""Reads single tensors from the safetensors files of a folder, one file or several with an index."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors
import torch
from torch import nn

from mindgap.sources.source import SourceError, one_line
from mindgap.sources.type_guards import is_table


@dataclass(frozen=True, slots=True)
class TensorFolder:
    """Where each tensor of a folder lies. `files`: the file of each tensor, by its name. `prefix`: what the names of a
    bare model have in front of those of the model with a head (`model`), or "".
    """

    folder: Path
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    prefix: str = ""

    def name_of(self, name: str) -> str | None:
        """Returns the name in the files of a parameter, None where they lack it."""
        names = [name]
        if self.prefix:
            names += [f"{self.prefix}.{name}", name.removeprefix(f"{self.prefix}.")]
        return next((each for each in names if each in self.files), None)

    def read(self, names: Mapping[str, str]) -> dict[str, torch.Tensor]:
        """Returns tensors by parameter. `names`: of each parameter the name in the files.

        Opens those files alone that hold one of them, and reads those tensors alone. Raises `SourceError` for a file
        that is missing or damaged.
        """
        tensors: dict[str, torch.Tensor] = {}
        with ExitStack() as stack:
            opened: dict[str, Any] = {}
            for parameter, name in names.items():
                file = self.files[name]
                try:
                    if file not in opened:
                        made: Any = safetensors.safe_open(self.folder / file, framework="pt")
                        opened[file] = stack.enter_context(made)
                    tensors[parameter] = opened[file].get_tensor(name)
                except (OSError, safetensors.SafetensorError) as error:
                    raise SourceError(
                        f"{self.folder / file}: {name} cannot be read ({one_line(error)}): copy the file again"
                    ) from error
        return tensors

    def fill(self, model: nn.Module) -> set[str]:
        """Copies into a model what the files have of its tensors, in these shapes. Returns the parameters they lack."""
        state: dict[str, torch.Tensor] = dict(model.state_dict())
        names = {name: known for name in state if (known := self.name_of(name)) is not None}
        read = {name: tensor for name, tensor in self.read(names).items() if tensor.shape == state[name].shape}
        model.load_state_dict(read, strict=False)
        return {name for name, _ in model.named_parameters()} - read.keys()


def tensor_folder(folder: Path, prefix: str = "") -> TensorFolder:
    """Returns where the tensors of a folder lie, by its index, or by the headers of its files.

    Raises `SourceError` for a damaged index or file, and for an index that leads out of the folder.
    """
    files: dict[str, str] = {}
    for index in sorted(folder.glob("*.safetensors.index.json")):
        try:
            table: Any = json.loads(index.read_text())["weight_map"]
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise SourceError(f"{index}: no index of safetensors files ({one_line(error)}): copy it again") from error
        if not is_table(table):
            raise SourceError(f"{index}: weight_map is no JSON object: copy it again")
        for name, file in table.items():
            if not isinstance(file, str) or Path(file).name != file:
                raise SourceError(f"{index}: {name} is in {file!r}, which is no file of this folder")
            files[name] = file
    if files:
        return TensorFolder(folder, files, prefix)
    for path in sorted(folder.glob("*.safetensors")):
        try:
            opened: Any = safetensors.safe_open(path, framework="pt")
            with opened as content:
                files.update(dict.fromkeys(content.keys(), path.name))
        except (OSError, safetensors.SafetensorError) as error:
            raise SourceError(f"{path}: no safetensors file ({one_line(error)}): copy it again") from error
    return TensorFolder(folder, files, prefix)
