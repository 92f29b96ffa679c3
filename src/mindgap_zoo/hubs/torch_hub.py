"""Opens `torchhub:OWNER/NAME:ENTRYPOINT` or `torchhub:FOLDER:ENTRYPOINT`: a model from a repository's `hubconf.py`.

This runs the repository's own code, as `torch.hub` does. The user named it; no pattern ever matches such a source.
Nothing is downloaded: trained weights are not requested, and an attempt of the code to fetch them is refused.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import sys
from collections.abc import Callable, Generator, Iterator
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn

from mindgap.graph import Integers, Normal, Recipe
from mindgap.sources.libraries import silence_output
from mindgap.sources.program import Built, Program
from mindgap.sources.source import Source, SourceError, SourceOptions, one_line, source_options, suggest
from mindgap.sources.weights.construction import construct
from mindgap.sources.weights.tensor_registry import TensorRegistry, seed_of
from mindgap_zoo.weights.seeding import finished, seed_weights

_REPOSITORY: Final = re.compile(r"^[\w.-]+/[\w.-]+(:[\w./-]+)?$")
#: Tried in turn on a model whose signature does not say what it takes: recipe, dtype (empty: the model's), shape.
_SHAPES: Final[tuple[tuple[str, tuple[int, ...]], ...]] = (
    ("float", (3, 224, 224)), ("float", (1, 224, 224)), ("int64", (12,)), ("float", (1, 16000)), ("float", (16000,)),
    ("float", (3, 8, 112, 112)), ("float", (32,)),
)  # fmt: skip
#: What fetches files, wherever a repository's code calls it.
_FETCHERS: Final = ("load_state_dict_from_url", "download_url_to_file")


def open_torchhub(source: Source) -> list[Program]:
    chosen = source_options(source)
    repository, colon, entry = source.target.rpartition(":")
    if not (colon and repository and entry.isidentifier()):
        raise SourceError(f"{source.text}: write torchhub:FOLDER:ENTRYPOINT or torchhub:OWNER/NAME:ENTRYPOINT")
    folder = _located(source, repository)
    if not (folder / "hubconf.py").is_file():
        raise SourceError(f"{source.text}: {folder} has no hubconf.py")
    return [Program(f"{folder.name}:{entry}", source.text, functools.partial(_build, source, folder, entry, chosen))]


def _located(source: Source, repository: str) -> Path:
    """Returns the repository's folder: the user's, or the copy that `torch.hub` keeps. Downloads nothing."""
    path = Path(repository).expanduser()
    if path.is_dir():
        return path
    if not _REPOSITORY.match(repository) or repository.startswith("."):
        raise SourceError(f"{source.text}: no such folder as {path}, and no repository (OWNER/NAME)")
    hub: Any = torch.hub
    kept = Path(hub.get_dir())
    name, _, branch = repository.partition(":")
    prefix = name.replace("/", "_")
    wanted = [f"{prefix}_{branch}"] if branch else [f"{prefix}_main", f"{prefix}_master"]
    for folder in [kept / one for one in wanted] + ([] if branch else sorted(kept.glob(f"{prefix}_*"))):
        if (folder / "hubconf.py").is_file():
            return folder
    raise SourceError(
        f"{source.text}: {repository} is not in {kept}, and mindgap downloads nothing: clone it and name the folder: "
        f"torchhub:FOLDER:{source.target.rpartition(':')[2]}"
    )


def _build(source: Source, folder: Path, entry: str, chosen: SourceOptions) -> Built:
    with _no_downloads(source), _own_modules(folder):
        model = construct(source, chosen, lambda: _made(source, folder, entry))
        registry = TensorRegistry()
        seed_weights(model, chosen.seed, registry)
        argument = _accepted(source, model, chosen, registry)
        with silence_output():
            return finished(model, chosen, registry, (argument,))


def _made(source: Source, folder: Path, entry: str) -> nn.Module:
    """Returns the model of the entry point. Raises `SourceError` if there is no entry point or it returns no model."""
    with silence_output():
        try:
            function = _entry_point(source, folder, entry)
            made = function(**_untrained(function))
        except SystemExit as error:
            raise SourceError(f"{source.text}: its code called sys.exit({error.code})") from error
    if not isinstance(made, nn.Module):
        raise SourceError(f"{source.text}: {entry} returned a {type(made).__name__}, and no model")
    return made


def _entry_point(source: Source, folder: Path, entry: str) -> Callable[..., Any]:
    """Returns the callable of that name in the repository's hubconf.py, after a check of its declared dependencies."""
    spec = spec_from_file_location("hubconf", folder / "hubconf.py")
    assert spec is not None and spec.loader is not None
    hubconf = module_from_spec(spec)
    spec.loader.exec_module(hubconf)
    missing = [name for name in getattr(hubconf, "dependencies", []) if find_spec(name) is None]
    if missing:
        raise SourceError(f"{source.text}: it needs {', '.join(missing)}, which is not installed")
    known = [name for name, value in vars(hubconf).items() if callable(value) and not name.startswith("_")]
    if entry not in known:
        raise SourceError(f"{source.text}: its hubconf.py has no entry point {entry!r}{suggest(entry, known)}")
    return getattr(hubconf, entry)


def _untrained(function: Callable[..., Any]) -> dict[str, Any]:
    """Returns those arguments of the entry point that ask for a model without trained weights."""
    try:
        taken = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}
    arguments: dict[str, Any] = {name: False for name in ("pretrained", "pretrained_backbone") if name in taken}
    return arguments | {name: None for name in ("weights", "weights_backbone") if name in taken}


def _accepted(source: Source, model: nn.Module, chosen: SourceOptions, registry: TensorRegistry) -> torch.Tensor:
    """Returns the first argument that the model runs with."""
    failures: list[str] = []
    for recipe, dtype, shape in _arguments(model, chosen):
        argument = registry.draw(recipe, dtype, shape)
        try:
            with torch.no_grad(), silence_output():
                model(argument)
            return argument
        except Exception as error:
            failures.append(f"with {dtype} {list(shape)} it raised {one_line(error)}")
    raise SourceError(f"{source.text}: {failures[0]}")


def _arguments(model: nn.Module, chosen: SourceOptions) -> Iterator[tuple[Recipe, str, tuple[int, ...]]]:
    for index, (kind, shape) in enumerate(_SHAPES):
        if chosen.size is not None and kind == "float" and len(shape) >= 3:
            shape = (*shape[:-2], chosen.size, chosen.size)
        seed = seed_of(f"argument {index}", chosen.seed)
        if kind == "int64":
            yield Integers(seed, 0, 32), "int64", (chosen.examples, *shape)
        else:
            yield Normal(seed), chosen.dtype or "float32", (chosen.examples, *shape)


@contextlib.contextmanager
def _no_downloads(source: Source) -> Generator[None]:
    """Makes downloads raise inside the block: the model must be the same on every machine."""

    def refuse(url: str, *_: Any, **__: Any) -> Any:
        raise SourceError(f"{source.text}: it wants to download {url}, and nothing is downloaded")

    hub: Any = torch.hub
    before = {name: getattr(hub, name) for name in _FETCHERS}
    for name in _FETCHERS:
        setattr(hub, name, refuse)
    try:
        yield
    finally:
        for name, function in before.items():
            setattr(hub, name, function)


@contextlib.contextmanager
def _own_modules(folder: Path) -> Generator[None]:
    """Removes the modules that a repository imported from its folder: the next one may have others of the same
    names."""
    here = str(folder.resolve())
    before = set(sys.modules)
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            if isinstance(file, str) and Path(file).resolve().is_relative_to(here):
                del sys.modules[name]
