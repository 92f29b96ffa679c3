"""Runs a module of mindgap with another interpreter: `PYTHON start.py PACKAGE MORE MODULE ARGUMENT…`.

PACKAGE: the folder of the mindgap that starts it, and that of its metadata, joined with `os.pathsep`.
MORE: folders with packages that the environment lacks, joined with
`os.pathsep`; they come last on the path. `PYTHON start.py --facts MORE MODULE…` prints what the environment is, and
which modules it lacks, as JSON; `PYTHON start.py --versions MORE NAME…` prints the installed versions of packages.

Any Python 3 can read this file, so that one that is too old is named, not met as a syntax error.
"""

import os
import sys


def _facts(modules: "list[str]") -> object:
    import platform

    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "machine": platform.machine(),
        "prefix": sys.prefix,
        "missing": [name for name in modules if not _imports(name)],
    }


def _versions(names: "list[str]") -> object:
    return {name: found for name, found in [(name, _version(name)) for name in names] if found is not None}


def _version(name: str) -> "str | None":
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _imports(name: str) -> bool:
    """Small packages are imported: one that is there may be broken. PyTorch takes seconds, and is looked for."""
    import importlib
    import importlib.util

    if name == "torch":
        return importlib.util.find_spec(name) is not None
    try:
        importlib.import_module(name)
    except Exception:
        return False
    return True


def _find_programs() -> None:
    """Puts the programs of the environment first on the PATH, as its activation does."""
    programs = os.path.dirname(os.path.abspath(sys.executable))
    os.environ["PATH"] = os.pathsep.join(filter(None, [programs, os.environ.get("PATH", "")]))


def _load(package: str) -> None:
    """Makes `mindgap` and the packages `mindgap_*` those of that folder, before all else on the path, with
    their entry points."""
    import importlib.metadata
    import importlib.util
    from pathlib import Path

    package, _, metadata = package.partition(os.pathsep)
    folder = os.path.dirname(package)

    class Finder:
        @staticmethod
        def find_spec(name: str, path: object = None, target: object = None) -> object:
            place = os.path.join(folder, name)
            if name.partition("_")[0] != "mindgap" or not os.path.isfile(os.path.join(place, "__init__.py")):
                return None
            return importlib.util.spec_from_file_location(
                name, os.path.join(place, "__init__.py"), submodule_search_locations=[place]
            )

        @staticmethod
        def find_distributions(context: object = None) -> object:
            wanted = getattr(context, "name", None)
            if metadata and wanted in (None, "mindgap"):
                yield importlib.metadata.PathDistribution(Path(metadata))

    sys.meta_path.insert(0, Finder)  # type: ignore[arg-type]
    importlib.import_module("mindgap")


def _main() -> None:
    # The first entry is this file's own folder, whose modules are not meant.
    del sys.path[0]
    # What the environment has installed comes before PYTHONPATH, which was set for another one.
    foreign = [os.path.abspath(folder) for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    sys.path = [folder for folder in sys.path if folder not in foreign] + foreign
    first, more = sys.argv[1:3]
    sys.path += [folder for folder in more.split(os.pathsep) if folder]
    function = {"--facts": _facts, "--versions": _versions}.get(first)
    if function is not None:
        import json

        sys.stdout.write(json.dumps(function(sys.argv[3:])) + "\n")
        return
    import runpy

    _find_programs()
    _load(first)
    module = sys.argv[3]
    sys.argv = [module, *sys.argv[4:]]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()
