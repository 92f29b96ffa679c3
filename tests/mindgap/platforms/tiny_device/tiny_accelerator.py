"""The maker's package: `import tiny_accelerator` makes `tiny` a device of PyTorch's and gives it `torch.tiny`."""

import os
import types
from pathlib import Path

import torch

__version__ = "1.2"

torch.ops.load_library(os.fspath(Path(__file__).with_name("libtiny_accelerator.so")))
torch.utils.rename_privateuse1_backend("tiny")

_module = types.ModuleType("torch.tiny", "What a maker offers for its device.")
_module.is_available = lambda: True
_module.device_count = lambda: 1
_module.current_device = lambda: 0
_module.synchronize = lambda device=None: None
_module.get_device_name = lambda device=None: "Tiny 1"
_module.get_amp_supported_dtype = lambda: [torch.float16, torch.bfloat16]
_module._is_in_bad_fork = lambda: False

torch._register_device_module("tiny", _module)
torch.utils.generate_methods_for_privateuse1_backend()
