"""Tells whose code a source file is, by the real folders of packages: mindgap's, Python's, an installed package's."""

from __future__ import annotations

import os
import re
import sysconfig
from typing import Final

#: The folder of mindgap's package as this process imports it.
PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
#: What follows its name in those of the other packages of mindgap.
SUFFIXES: Final = ("", "_campaign", "_diagnosis", "_runtimes", "_studies", "_surveys", "_zoo")
_STDLIB: Final = sysconfig.get_path("stdlib")
#: Python's folders of installed packages, and of its library in any environment.
_INSTALLED: Final = re.compile(r"/(?:site|dist)-packages/")
_ANY_STDLIB: Final = re.compile(r"/lib(?:64)?/python3\.\d+/")
#: A character that is no ASCII, as Python writes it into the stack of a process that dies.
_ESCAPED: Final = re.compile(r"\\x[0-9a-f]{2}|\\u[0-9a-f]{4}|\\U[0-9a-f]{8}")


def is_mindgaps(file: str, package: str = PACKAGE) -> bool:
    """Whether a file lies in mindgap's package, or in another of mindgap's. `package`: its folder where the file
    is."""
    folders = [f"{folder}{suffix}{os.sep}" for folder in (package, os.path.realpath(package)) for suffix in SUFFIXES]
    return file.startswith(tuple(folders))


def is_installed(file: str) -> bool:
    """Whether a file is that of an installed package."""
    return _INSTALLED.search(file) is not None


def is_of_package(file: str, package: str) -> bool:
    """Whether a file is that of an installed package of this name."""
    place = _INSTALLED.search(file)
    return place is not None and file.startswith(package + os.sep, place.end())


def is_pythons(file: str, anywhere: bool = False) -> bool:
    """Whether a file is that of Python itself. `anywhere`: another environment's Python may have run it."""
    inside = file.startswith((_STDLIB + os.sep, "<frozen"))
    return (inside or (anywhere and _ANY_STDLIB.search(file) is not None)) and not is_installed(file)


def unescaped(file: str) -> str:
    """Returns the path of a file as it is, of one in the stack of a process that died."""
    return _ESCAPED.sub(lambda found: chr(int(found[0][2:], 16)), file)
