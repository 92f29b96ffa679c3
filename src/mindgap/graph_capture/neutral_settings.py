"""Settings under which programs are captured and checked: no device-specific operators, no lasting change of random
state."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from mindgap.aten.torch_private.fake_tensors import FAKE_TENSOR_LOGGERS
from mindgap.aten.torch_private.process_state import changed

#: Loggers that print a traceback for each operator without a fake kernel; the failure reaches the user as an error.
_LOUD = (*FAKE_TENSOR_LOGGERS, "torch.fx.experimental.symbolic_shapes")
_NEUTRAL: Final[Mapping[str, Any]] = {
    "the fast path of attention": False,
    "the gradient mode": False,
    "the number of threads": 1,
    "the checks of distributions": False,
}


@contextmanager
def neutral_settings() -> Generator[None]:
    """Turns off fused attention on the CPU, gradients, threads, `torch.compile` and the checks of distributions inside
    the block. The checks read values, and `torch.compile` turns them off too.

    Restores the random states of torch, numpy and Python afterwards.
    """
    with ExitStack() as stack:
        stack.enter_context(changed(_NEUTRAL))
        stack.enter_context(silence_loggers())
        stack.enter_context(torch.autocast("cpu", enabled=False))
        if "torch._dynamo" in sys.modules:  # otherwise nothing is compiled, and importing it takes seconds
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        yield


@contextmanager
def silence_loggers() -> Generator[None]:
    loggers = [logging.getLogger(name) for name in _LOUD]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, was in zip(loggers, before, strict=True):
            logger.disabled = was


@contextmanager
def portable_kernels() -> Generator[None]:
    """Makes the parts of decomposed composite operators exist on every device, inside the block."""
    with torch.backends.mkldnn.flags(enabled=False):
        yield


@contextmanager
def neutral_kernel_settings(gradients: bool) -> Generator[None]:
    """Applies `neutral_settings` and decomposes every composite operator into portable parts. `gradients`: autograd
    is on."""
    with neutral_settings(), portable_kernels(), sdpa_kernel(SDPBackend.MATH), torch.set_grad_enabled(gradients):
        yield
