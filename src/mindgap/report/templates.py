"""Makes the environment of the pages' templates, and reads the style sheets and scripts that they hold.

Other packages have other folders, next to which this one's templates and styles are found.

Needs no PyTorch: commands that run nothing write pages too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

HERE: Final = Path(__file__).parent


def source_text(name: str, folder: Path = HERE) -> str:
    """Returns the text of a style sheet or script of a folder, or of this one."""
    file = folder / name
    return (file if file.is_file() else HERE / name).read_text(encoding="utf-8")


def styles(*names: str, folder: Path = HERE) -> Markup:
    """Returns style sheets of a folder or of this one, one after the other."""
    return Markup("".join(source_text(name, folder) for name in names))


def template_environment(functions: dict[str, Any] | None = None, folder: Path = HERE) -> Environment:
    """Returns an environment of the templates of a folder and of this one, in which names that are not given are
    errors.

    functions: what templates call, by name.
    """
    loader = FileSystemLoader([folder, HERE])
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.globals.update(functions or {})
    return environment
