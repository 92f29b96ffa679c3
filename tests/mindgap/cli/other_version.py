"""What makes an interpreter's PyTorch one of another version."""

from __future__ import annotations

#: A PyTorch of another version, whose tanh is wrong, with mindgap and without: what `sitecustomize` does to the
#: interpreter of an environment.
OTHER_VERSION = """
import importlib.metadata, importlib.util, sys

_version = importlib.metadata.version
importlib.metadata.version = lambda name: "99.0" if name == "torch" else _version(name)

class _Patch:
    asked = False

    def find_spec(self, name, path=None, target=None):
        if name != "torch" or _Patch.asked:
            return None
        _Patch.asked = True
        spec = importlib.util.find_spec(name)
        _Patch.asked = False
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            module.__version__ = "99.0"
            library = module.library.Library("aten", "IMPL")
            library.impl("tanh", lambda x: (x * 2).sigmoid() * 2.01 - 1, "CPU")
            _Patch.kept = library

        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, _Patch())
"""
