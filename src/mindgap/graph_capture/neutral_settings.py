"""Settings under which programs are captured and checked: no device-specific operators, no lasting change of random
state."""

from __future__ import annotations

import logging
import random
import sys
import warnings
from collections.abc import Generator
from contextlib import ExitStack, contextmanager

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from mindgap.aten.torch_private.fake_tensors import FAKE_TENSOR_LOGGERS
from mindgap.aten.torch_private.process_state import unchecked_distributions

#: Loggers that print a traceback for each operator without a fake kernel; the failure reaches the user as an error.
_LOUD = (*FAKE_TENSOR_LOGGERS, "torch.fx.experimental.symbolic_shapes")


@contextmanager
def neutral_settings() -> Generator[None]:
    """Turns off fused attention on the CPU, gradients, threads, `torch.compile` and the checks of distributions inside
    the block. The checks read values, and `torch.compile` turns them off too.

    Restores the random states of torch, numpy and Python afterwards.
    """
    fast, threads = torch.backends.mha.get_fastpath_enabled(), torch.get_num_threads()
    python, legacy = random.getstate(), np.random.get_state()
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=[]))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType] # untyped in PyTorch
        stack.enter_context(torch.no_grad())
        stack.enter_context(silence_loggers())
        stack.enter_context(torch.autocast("cpu", enabled=False))
        stack.enter_context(unchecked_distributions())
        if "torch._dynamo" in sys.modules:  # otherwise nothing is compiled, and importing it takes seconds
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        torch.backends.mha.set_fastpath_enabled(False)
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)
            torch.backends.mha.set_fastpath_enabled(fast)
            random.setstate(python)
            np.random.set_state(legacy)


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
