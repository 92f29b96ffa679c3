"""Sets and checks Inductor's options, and gives each setting and machine a separate cache directory."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import logging
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any, Final

import torch
import torch.fx

from mindgap.aten.torch_private.inductor import (
    PARTIAL_BACKENDS,
    SWITCHED_OFF,
    default_cache_dir,
    inductor_config,
    pick_vec_isa,
)
from mindgap.platforms.protocol import Fallback, Options, require_names
from mindgap.platforms.pytorch.compilation import torch_compile
from mindgap.platforms.pytorch.compilation.compiled import Program
from mindgap.platforms.pytorch.compilation.inductor_passes import inductor_passes
from mindgap.platforms.pytorch.device.availability import compiler_present, processor
from mindgap.platforms.pytorch.device.devices import DEVICES
from mindgap.platforms.pytorch.device.runtime import hardware
from mindgap.platforms.pytorch.device.settings import thread_counts

_RECORD: Final = "made-for.json"
_base: str | None = None


def establish(options: Options, description: Mapping[str, Any]) -> dict[str, Any]:
    """Sets this setting's cache and describes Inductor. Raises `Fallback` if `simdlen=` has no effect,
    `PlatformError` for a pass that this version lacks."""
    # It prints a traceback for every graph that is not valid, which is nothing to print about here.
    logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)
    if "without" in options:
        require_names("without", options["without"].split("+"), inductor_passes(), f"Inductor {torch.__version__}")
    compiler = _compiler()
    name, width = _vectors(options)
    _claim_cache(options, description, compiler, name)
    wanted = int(options.get("simdlen", width))
    if wanted != width:
        raise Fallback(f"simdlen={wanted} is not in force: Inductor would use {name} of {width} bits")
    return {"compiler": compiler, "vector_isa": name, "vector_bits": width}


def _vectors(options: Options) -> tuple[str, int]:
    """The vector instructions that Inductor uses after a trial compilation, and their bits; `none` has one."""
    with configured(options):
        isa = pick_vec_isa()
    return (str(isa), isa.bit_width()) if isa else ("none", 1)


def compile_graph(module: torch.fx.GraphModule, options: Options, run: Callable[[Program], Any]) -> Program:
    """Compiles the module with Inductor under these options; see `torch_compile.compile_graph`.

    `stage=` stops after a stage of `torch.compile`, and runs what it made in eager mode.
    """
    backend = PARTIAL_BACKENDS[options["stage"]] if "stage" in options else "inductor"
    return torch_compile.compile_graph(module, backend, run, lambda: configured(options))


@contextlib.contextmanager
def configured(options: Options) -> Generator[None]:
    """Sets Inductor's options within a block."""
    patches: dict[str, Any] = {"freezing": options.get("freezing") == "1"}
    if "simdlen" in options:
        patches["cpp.simdlen"] = int(options["simdlen"])
    if "off" in options:
        patches |= SWITCHED_OFF[options["off"]]
    if "without" in options:
        patches["disabled_passes"] = options["without"].replace("+", ",")
    with inductor_config.patch(patches):
        yield


@functools.cache
def _compiler() -> str:
    path = compiler_present().versions.get("compiler")
    if path is None:
        return ""
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=False, timeout=60).stdout
    return next(iter(version.splitlines()), path)


def claim_cache_on_cpu(options: Options) -> None:
    """Sets the cache of the platform with these options in a process that runs programs: the compiler's checks of the
    processor and kernels that are alike are made once."""
    description = {"threads": thread_counts(), "capability": torch.backends.cpu.get_cpu_capability(), "device": "cpu"}
    _claim_cache(options, description | hardware(DEVICES["cpu"]), _compiler(), _vectors(options)[0])


def _claim_cache(options: Options, description: Mapping[str, Any], compiler: str, isa: str) -> None:
    """Points Inductor at a directory for exactly these facts.

    Inductor's own key leaves out the processor, the compiler, the vector instructions that a trial compilation finds
    and the number of threads, though generated code depends on all of them. The facts lie in the directory: one that
    states others is emptied.
    """
    global _base
    made_for = {
        "torch": f"{torch.__version__} {torch.version.git_version}",
        "python": platform.python_version(),
        "processor": processor().name,
        "flags": sorted(processor().flags),
        "compiler": compiler,
        "vector_isa": isa,
        # Inductor's key holds its configuration.
        "options": {key: value for key, value in options.items() if key not in ("stage", "off", "without")},
        "threads": description["threads"],
        "capability": description["capability"],
        "device": description.get("hardware", description["device"]),
    }
    _base = _base or os.environ.get("TORCHINDUCTOR_CACHE_DIR") or default_cache_dir()
    facts = json.dumps(made_for, sort_keys=True, indent=1)
    folder = Path(_base) / f"mindgap-{hashlib.sha256(facts.encode()).hexdigest()[:16]}"
    if _stated(folder) != facts:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # The worker of the platform and that of its programs may be here at the same time: the directory comes whole.
        made = Path(tempfile.mkdtemp(prefix="made-for-", dir=folder.parent))
        (made / _RECORD).write_text(facts)
        if folder.exists() and _stated(folder) != facts:
            shutil.rmtree(folder, ignore_errors=True)
        try:
            made.rename(folder)
        except OSError:  # the other one was first
            shutil.rmtree(made, ignore_errors=True)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder)


def _stated(folder: Path) -> str | None:
    """The facts that a directory was made for; None where it states none."""
    try:
        return (folder / _RECORD).read_text()
    except OSError:
        return None
