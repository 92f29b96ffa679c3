"""Makes the environment of the pages' templates, and reads the style sheets and scripts that they hold.

Needs no PyTorch: commands that run nothing write pages too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

_HERE: Final = Path(__file__).parent


def source_text(name: str) -> str:
    """Returns the text of a style sheet or script of this folder."""
    return (_HERE / name).read_text(encoding="utf-8")


def styles(*names: str) -> Markup:
    """Returns style sheets of this folder, one after the other."""
    return Markup("".join(map(source_text, names)))


def template_environment(functions: dict[str, Any] | None = None) -> Environment:
    """Returns an environment of this folder's templates, in which names that are not given are errors.

    functions: what templates call, by name.
    """
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.globals.update(functions or {})
    return environment
