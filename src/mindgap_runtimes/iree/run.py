"""Runs a model on IREE as its users do: iree-turbine exports and compiles it, IREE's runtime runs the module."""

# pyright: basic, reportMissingImports=false
# (the runtime is typed in parts only, and lies in an environment of its own)

from __future__ import annotations

from typing import TYPE_CHECKING

import iree.runtime
import iree.turbine.aot
import numpy as np
import torch

from mindgap_runtimes.iree.backend import properties

if TYPE_CHECKING:
    from mindgap.platforms.script_runner import Fresh

PROPERTIES: dict[str, str | int] = properties({})


def run(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs of the compiled module."""
    output = iree.turbine.aot.export(model, args=fresh())
    output.session.set_flags(*(f"--{name}={value}" for name, value in PROPERTIES.items()))
    program = output.compile(save_to=None, target_backends=None)
    config = iree.runtime.Config("local-task")
    module = iree.runtime.VmModule.copy_buffer(config.vm_instance, program.map_memory())
    loaded = iree.runtime.load_vm_module(module, config)
    found = loaded.main(*(a.numpy() for a in fresh()))
    return [torch.as_tensor(np.array(array)) for array in (found if isinstance(found, tuple) else (found,))]


def run_vulkan(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs of the compiled module on Vulkan's first device."""
    output = iree.turbine.aot.export(model, args=fresh())
    output.session.set_flags(*(f"--{name}={value}" for name, value in PROPERTIES.items()))
    program = output.compile(save_to=None, target_backends=None)
    config = iree.runtime.Config("vulkan")
    module = iree.runtime.VmModule.copy_buffer(config.vm_instance, program.map_memory())
    found = iree.runtime.load_vm_module(module, config).main(*(a.numpy() for a in fresh()))
    outputs, kinds, usage = [], iree.runtime.MemoryType, iree.runtime.BufferUsage
    for array in found if isinstance(found, tuple) else (found,):
        # DeviceArray.to_host() fails on memory that is not aligned to pages: copied to memory that the host maps.
        source = array._buffer_view.get_buffer()
        host = kinds.HOST_LOCAL | kinds.DEVICE_VISIBLE, usage.TRANSFER | usage.MAPPING
        copy = config.device.allocator.allocate_buffer(*host, source.byte_length())
        done = config.device.create_semaphore(0)
        config.device.queue_copy(source, copy, [], [(done, 1)])
        done.wait(1)
        outputs.append(torch.as_tensor(np.array(copy.map().asarray(tuple(array.shape), np.dtype(array.dtype)))))
    return outputs
