"""The global state of this process that a user's program may leave changed: of PyTorch, of Python, random numbers."""
# pyright: reportPrivateUsage=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# (most of it has no public getter)

from __future__ import annotations

import contextlib
import functools
import os
import random
import sys
import warnings
from collections.abc import Callable, Generator, Mapping
from typing import Any, Final

import numpy as np
import torch
import torch._guards

_C: Final[Any] = torch._C
_guards: Final[Any] = torch._guards
_forward: Final[Any] = torch.autograd.forward_ad
_Distribution: Final[Any] = torch.distributions.Distribution
#: Devices whose autocast is restored.
_AUTOCAST: Final = ("cpu", "cuda")
#: Modes that are entered to be out of another for the rest of this process.
_entered: Final[list[Any]] = []
_device_context: Final[Any] = torch._GLOBAL_DEVICE_CONTEXT


def _set_environment(variables: Mapping[bytes, bytes]) -> None:
    for name in os.environb.keys() - variables.keys():
        del os.environb[name]
    os.environb.update(variables)


def _default_device() -> str:
    # The public getter makes a tensor, which a mode that was left may refuse.
    context = getattr(_device_context, "device_context", None)
    return "" if context is None else str(context.device)


def _folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


def _autocast() -> list[tuple[bool, torch.dtype]]:
    return [(torch.is_autocast_enabled(each), torch.get_autocast_dtype(each)) for each in _AUTOCAST]


def _set_autocast(wanted: list[tuple[bool, torch.dtype]]) -> None:
    for device, (on, dtype) in zip(_AUTOCAST, wanted, strict=True):
        torch.set_autocast_enabled(device, on)
        torch.set_autocast_dtype(device, dtype)


def _autocast_depth() -> int:
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


def _set_autocast_depth(wanted: int) -> None:
    # The cache of casts is emptied where the outermost region ends, and would hold old weights.
    while _autocast_depth() > wanted:
        torch.autocast_decrement_nesting()
    torch.clear_autocast_cache()


#: Settings that a program may make on purpose: getter and setter.
_SETTINGS: Final[Mapping[str, tuple[Callable[[], Any], Callable[[Any], object]]]] = {
    "the default device": (_default_device, lambda device: torch.set_default_device(device or None)),
    "the default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "the gradient mode": (torch.is_grad_enabled, _C._set_grad_enabled),
    "autocast": (_autocast, _set_autocast),
    "the depth of autocast": (_autocast_depth, _set_autocast_depth),
    "autocast's cache": (torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled),
    "deterministic algorithms": (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
    "the number of threads": (torch.get_num_threads, torch.set_num_threads),
    "the precision of products": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    "oneDNN": (_C._get_mkldnn_enabled, _C._set_mkldnn_enabled),
    "anomaly detection": (torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
    "the fast path of attention": (
        lambda: torch.backends.mha.get_fastpath_enabled(),
        lambda on: torch.backends.mha.set_fastpath_enabled(on),
    ),
    # torch.compile turns them off for the rest of the process.
    "the checks of distributions": (lambda: _Distribution._validate_args, _Distribution.set_default_validate_args),
    "numpy's treatment of errors": (np.geterr, lambda how: np.seterr(**how)),
    "the working directory": (_folder, lambda folder: os.chdir(folder or "/")),
    # Without decoding, which takes most of the time of all settings.
    "environment variables": (lambda: vars(os.environ)["_data"].copy(), _set_environment),
    "the limit of recursion": (sys.getrecursionlimit, sys.setrecursionlimit),
}
#: Where code is within PyTorch's transformations, which code that ended has left, unless something went wrong.
_WITHIN: Final[Mapping[str, Callable[[], Any]]] = {
    "a function transform": lambda: _C._functorch.get_dynamic_layer_stack_depth(),
    "a dispatch mode": lambda: _C._len_torch_dispatch_stack(),
    "a function mode": lambda: _C._len_torch_function_stack() - bool(_default_device()),
    "inference mode": torch.is_inference_mode_enabled,
    "a trace": lambda: _C._get_tracing_state() is not None or _guards.TracingContext.try_get() is not None,
    "other dispatch keys": lambda: (
        _C._dispatch_tls_local_include_set().raw_repr(),
        _C._dispatch_tls_local_exclude_set().raw_repr(),
    ),
    "a level of automatic differentiation": lambda: _forward._current_level,
}


@functools.cache
def _exists(get: Callable[[], Any]) -> bool:
    """Whether this version of PyTorch has a getter."""
    try:
        get()
    except (AttributeError, TypeError):
        return False
    return True


def settings() -> dict[str, Any]:
    """Returns the settings that a program may make on purpose, by name."""
    return {name: get() for name, (get, _) in _SETTINGS.items() if _exists(get)}


def set_all(wanted: Mapping[str, Any]) -> None:
    for name, value in wanted.items():
        get, put = _SETTINGS[name]
        if get() != value:
            put(value)


def transformations() -> dict[str, Any]:
    """Returns where code is within PyTorch's transformations, by name."""
    return {name: get() for name, get in _WITHIN.items() if _exists(get)}


def random_states() -> tuple[Any, ...]:
    """Returns the states of the generators of random numbers of PyTorch (on the CPU), Python and numpy."""
    return torch.random.get_rng_state(), random.getstate(), np.random.get_state()


def set_random_states(states: tuple[Any, ...]) -> None:
    """Makes these states as they were."""
    torch.random.set_rng_state(states[0])
    random.setstate(states[1])
    np.random.set_state(states[2])


@contextlib.contextmanager
def same_random_numbers() -> Generator[None]:
    """Restores the generators of PyTorch (on the CPU), Python and numpy after the block."""
    drawn = random_states()
    try:
        yield
    finally:
        set_random_states(drawn)


@contextlib.contextmanager
def torch_seed(seed: int) -> Generator[None]:
    """Sets the seed of PyTorch's generator inside the block, and restores the generator's state afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


@contextlib.contextmanager
def restored(generators: bool = True) -> Generator[list[str]]:
    """Makes all of it as it was, whatever the code within leaves; `generators`: the random numbers, too.

    The list then names what was entered and not left: a process that serves other programs is to be replaced.
    """
    before, within, entered = settings(), transformations(), len(_entered)
    drawn = random_states() if generators else None
    left: list[str] = []
    yield left
    left += [name for name, now in transformations().items() if now != within[name]]
    if len(_entered) > entered:  # the guard that was left, once it is collected, makes dispatch keys as they were there
        left.append("inference mode")
    if not left:
        set_all(before)
        if drawn is not None:
            set_random_states(drawn)


@contextlib.contextmanager
def changed(wanted: Mapping[str, Any]) -> Generator[None]:
    """Applies settings inside the block; restores them and the random numbers afterwards."""
    before = {name: _SETTINGS[name][0]() for name in wanted}
    with same_random_numbers():
        set_all(wanted)
        try:
            yield
        finally:
            set_all(before)


@contextlib.contextmanager
def undisturbed() -> Generator[None]:
    """Restores all of it, in any state that the code within leaves. Warns of what cannot be restored."""
    before, within = settings(), transformations()
    try:
        yield
    finally:
        _leave(within)
        set_all(before)
        left = [name for name, value in transformations().items() if value != within[name]]
        if left:
            warnings.warn(f"the program left this process within {' and '.join(left)}: start another", stacklevel=3)


@contextlib.contextmanager
def left_behind() -> Generator[None]:
    """Leaves the transformations that code which raises has entered, so that they reach no handler of the error."""
    within, device = transformations(), _default_device()
    try:
        yield
    except BaseException:
        _leave(within)
        # It is a function mode too, and would be left in place of another.
        set_all({"the default device": device})
        raise


def _leave(within: Mapping[str, Any]) -> None:
    """Leaves the transformations that were entered since."""
    while _C._len_torch_function_stack() - bool(_default_device()) > within["a function mode"]:
        _C._pop_torch_function_stack()
    while _C._len_torch_dispatch_stack() > within["a dispatch mode"]:
        _C._pop_torch_dispatch_stack(None)
    if _C._functorch.get_dynamic_layer_stack_depth() > within["a function transform"]:
        _C._functorch.pop_dynamic_layer_stack_and_undo_to_depth(within["a function transform"])
    if _C._get_tracing_state() is not None and not within["a trace"]:
        _C._set_tracing_state(None)
    while _forward._current_level > within["a level of automatic differentiation"]:
        torch.autograd.forward_ad.exit_dual_level()
    if torch.is_inference_mode_enabled() and not within["inference mode"]:
        _entered.append(torch.inference_mode(False))
        _entered[-1].__enter__()
