"""Finds the folder of a Hugging Face model: the user's, or one in the local cache. Downloads nothing."""

from __future__ import annotations

import json
import logging
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mindgap.sources.libraries import import_library
from mindgap.sources.source import Source, SourceError, one_line
from mindgap.sources.type_guards import is_list, is_table

_log = logging.getLogger(__name__)

#: What a hub calls a model: one or two parts, then the folders of one of its components.
_NAME: Final = re.compile(r"^[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)*$")
_PICKLES: Final = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.h5", "*.msgpack")
_TABLES: Final = ("config.json", "model_index.json")


@dataclass(frozen=True, slots=True)
class HubModel:
    """One folder with a `config.json`, and the parsed configuration."""

    name: str
    source: str
    folder: Path
    config: dict[str, Any]

    @property
    def safetensors(self) -> bool:
        """Whether trained weights are here in a form that holds no code."""
        return any(self.folder.glob("*.safetensors"))

    @property
    def pickles(self) -> tuple[str, ...]:
        """Whether there are files of weights that could run code when they are loaded."""
        return tuple(sorted(path.name for pattern in _PICKLES for path in self.folder.glob(pattern)))


def located(source: Source) -> list[HubModel]:
    """Returns the models of a source: one, or the components of a pipeline (`model_index.json`).

    Raises `SourceError` if there is no such folder, nor such a model in the local cache.
    """
    folder, name = _folder(source)
    if (folder / "config.json").is_file():
        return [HubModel(name, source.text, folder, _table(folder / "config.json"))]
    if not (folder / "model_index.json").is_file():
        raise SourceError(f"{source.text}: {folder} has neither config.json nor model_index.json")
    models = [
        HubModel(f"{name}/{part}", _part_text(source, part), folder / part, _table(folder / part / "config.json"))
        for part, made_by in _table(folder / "model_index.json").items()
        if is_list(made_by) and _is_part(folder, part)
    ]
    if not models:
        raise SourceError(f"{source.text}: no component of this pipeline has a config.json here")
    return models


def _is_part(folder: Path, part: str) -> bool:
    """Whether a component's folder is inside the pipeline's own folder."""
    inside = (folder / part).resolve().is_relative_to(folder.resolve())
    return inside and (folder / part / "config.json").is_file()


def _part_text(source: Source, part: str) -> str:
    head, question, options = source.text.partition("?")
    return f"{head.rstrip('/')}/{part}{question}{options}"


def _folder(source: Source) -> tuple[Path, str]:
    path = Path(source.target).expanduser()
    if path.is_dir():
        return path, path.resolve().name
    if path.exists():
        raise SourceError(f"{source.text}: {path} is a file; name the folder that holds its config.json")
    if not _NAME.match(source.target):
        raise SourceError(f"{source.text}: no such folder, and no name of a model on the hub (OWNER/NAME)")
    owner, _, rest = source.target.partition("/")
    name, _, part = rest.partition("/")
    model = f"{owner}/{name}" if name else owner
    snapshot = _cached(model, source)
    return snapshot / part if part else snapshot, source.target


def _cached(model: str, source: Source) -> Path:
    """Returns the newest snapshot in the local cache that has a configuration. No request goes to the hub.

    Raises `SourceError` where there is none.
    """
    hub = import_library("huggingface_hub", f"hub:{model}: huggingface_hub", "transformers")
    try:
        folder = Path(hub.snapshot_download(model, local_files_only=True))
    except Exception as error:  # not in the cache, or a damaged cache
        _log.info("hub:%s: no snapshot in the local cache: %s", model, one_line(error))
        folder = None
    if folder is not None and any((folder / table).is_file() for table in _TABLES):
        return folder
    raise SourceError(
        f"{source.text}: there is no such folder, {model} is not in the local cache ({hub.constants.HF_HUB_CACHE}), "
        f"and mindgap downloads nothing: download it (`hf download {model}`, with --include '*.json' for the "
        f"architecture alone), or name a folder: hub:FOLDER"
    )


def _table(path: Path) -> dict[str, Any]:
    try:
        table: Any = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise SourceError(f"{path}: is no JSON that can be read ({one_line(error)})") from error
    if not is_table(table):
        raise SourceError(f"{path}: holds no JSON object")
    return dict(table)
