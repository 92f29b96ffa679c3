"""A device called `npu`, registered with PyTorch's dispatcher as a maker's package registers one.

Its memory is the host's and its kernels are the CPU's, behind tensors that PyTorch takes for another device's.
Three operators misbehave as those of real devices do: `erf` says that it falls back, `flip` gives its result on the
CPU, and after `logit` nothing runs any more.
"""

import os
import types
import warnings

import torch
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

__version__ = "0.1.pretend"


class _Module:
    """What `torch.npu` is. It lets HF32 be switched on, and has none."""

    def __init__(self):
        self.matmul = types.SimpleNamespace(allow_hf32=False)
        self.conv = types.SimpleNamespace(allow_hf32=True)

    def device_count(self):
        return 1

    def is_available(self):
        return True

    def is_initialized(self):
        return True

    def current_device(self):
        return 0

    def synchronize(self, device=None):
        self.waited = getattr(self, "waited", 0) + 1

    def get_device_name(self, device=None):
        return "Pretend 910"

    def get_amp_supported_dtype(self):
        return [torch.float16, torch.bfloat16]

    def _is_in_bad_fork(self):
        return False


_setup_privateuseone_for_python_backend("npu", backend_module=_Module())


#: A tensor's storage -> its values on the host. By storage, because autograd's copies of a tensor share only that.
_host = {}


def _held(host):
    """A tensor of the device with the values of `host`."""
    made = torch._C._acc.create_empty_tensor(host.shape, host.dtype)
    _host[made.untyped_storage()._cdata] = host
    return made


def _unwrapped(value):
    if isinstance(value, torch.Tensor):
        return _host[value.untyped_storage()._cdata] if value.device.type == "npu" else value
    if isinstance(value, torch.device):
        return torch.device("cpu")
    if isinstance(value, (list, tuple)):
        return [_unwrapped(item) for item in value]
    return value


def _wrapped(value, given):
    if isinstance(value, torch.Tensor):
        same = [one for one in given if isinstance(one, torch.Tensor) and _unwrapped(one) is value]
        return same[0] if same else _held(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_wrapped(item, given) for item in value)
    return value


_broken = []


def _kernel(op, *args, **kwargs):
    if op._schema.name == "aten::erf":
        if os.environ.get("TORCH_NPU_FALLBACK_CPU_DISABLE") == "1" and not os.environ.get("PRETEND_OLD"):
            raise RuntimeError("aten::erf has no kernel: unset TORCH_NPU_FALLBACK_CPU_DISABLE to run it on the CPU")
        warnings.warn(
            "CAUTION: The operator 'aten::erf' is not currently supported on the NPU backend and will fall back "
            "to run on the CPU. This may have performance implications.",
            stacklevel=1,
        )
    if op._schema.name == "aten::logit" or _broken:
        _broken.append(op)
        raise RuntimeError("an illegal memory access was encountered")
    kwargs = {name: _unwrapped(value) for name, value in kwargs.items()}
    kwargs = {name: torch.device("cpu") if name == "device" else value for name, value in kwargs.items()}
    result = op(*map(_unwrapped, args), **kwargs)
    return result if op._schema.name == "aten::flip" else _wrapped(result, args)


def _copy_from(source, target, non_blocking=False):
    _unwrapped(target).copy_(_unwrapped(source))
    return target


def _convolution(*args):
    return _held(torch.ops.aten.convolution.default(*map(_unwrapped, args)))


def _convolution_backward(gradient, image, weight, *settings):
    *settings, mask = settings
    given = map(_unwrapped, (gradient, image, weight))
    return _wrapped(torch.ops.aten.convolution_backward.default(*given, [weight.shape[0]], *settings, mask), ())


_everything = torch.library.Library("_", "IMPL")
_everything.fallback(_kernel, "PrivateUse1")
_own = torch.library.Library("aten", "IMPL")
_own.impl("_copy_from", _copy_from, "PrivateUse1")
_own.impl("convolution_overrideable", _convolution, "PrivateUse1")
_own.impl("convolution_backward_overrideable", _convolution_backward, "PrivateUse1")
