"""iree/vulkan: `x * x.sum(1, keepdim=True)` is 0 in elements of (5, 5, 5) and (1, 3, 14, 14); `renorm` leaves elements unscaled

Condition: an elementwise operator reads a sum over a dimension that is not the last, and the operand of the sum, of
float32. The code is a race in each of the sizes (5, 5, 5), (10, 3, 10) and (1, 3, 14, 14). Results are wrong for (5,
5, 5) and (1, 3, 14, 14) on SwiftShader, and for (10, 3, 10) and (1, 3, 14, 14) on lavapipe.
Seen with torch 2.13.0+cpu, iree-base-compiler 3.13.0, iree-base-runtime 3.13.0, iree-turbine 3.9.0.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import os, platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'VK_DRIVER_FILES': '/usr/lib/chromium/vk_swiftshader_icd.json'})  # before PyTorch is imported
import torch
import iree.runtime
import iree.turbine.aot
import numpy as np
PACKAGES = ('torch', 'iree-base-compiler', 'iree-base-runtime', 'iree-turbine')
PROPERTIES = {'iree-hal-target-backends': 'vulkan-spirv'}
class Model(torch.nn.Module):
    def forward(self, x):
        return x * x.sum(1, keepdim=True)
class Renorm(torch.nn.Module):
    def forward(self, x):
        return x.clone().renorm_(2, 1, 0.5)
CASES = {
    "smallest": (Model, lambda: (torch.arange(1.0, 126.0).reshape(5, 5, 5),)),
    "ordinary size": (Model, lambda: (torch.arange(1.0, 589.0).reshape(1, 3, 14, 14),)),
    "renorm": (Renorm, lambda: (torch.arange(1.0, 126.0).reshape(5, 5, 5),)),
}
def run(model, fresh):
    output = iree.turbine.aot.export(model, args=fresh())
    output.session.set_flags(*(f"--{name}={value}" for name, value in PROPERTIES.items()))
    program = output.compile(save_to=None, target_backends=None)
    config = iree.runtime.Config("vulkan")
    module = iree.runtime.VmModule.copy_buffer(config.vm_instance, program.map_memory())
    found = iree.runtime.load_vm_module(module, config).main(*(a.numpy() for a in fresh()))
    outputs = []
    for array in found if isinstance(found, tuple) else (found,):
        # DeviceArray.to_host() fails on memory that is not aligned to pages: copied to memory that the host maps.
        source, kinds = array._buffer_view.get_buffer(), iree.runtime.MemoryType
        copy = config.device.allocator.allocate_buffer(
            kinds.HOST_LOCAL | kinds.DEVICE_VISIBLE,
            iree.runtime.BufferUsage.TRANSFER | iree.runtime.BufferUsage.MAPPING,
            source.byte_length(),
        )
        done = config.device.create_semaphore(0)
        config.device.queue_copy(source, copy, [], [(done, 1)])
        done.wait(1)
        outputs.append(torch.as_tensor(np.array(copy.map().asarray(tuple(array.shape), np.dtype(array.dtype)))))
    return outputs
def off(found, right):
    """How far each element is off, relative to the largest of `right`; inf where NaN, inf or integers differ."""
    f, r = found.to(torch.complex128), right.to(torch.complex128)
    apart = (f - r).abs() / (max(r[r.isfinite()].abs().tolist(), default=0) or 1)
    apart = apart if right.is_floating_point() or right.is_complex() else apart + torch.inf
    return torch.where((found == right) | (found.isnan() & right.isnan()), 0.0, apart.nan_to_num(torch.inf, torch.inf))
flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out]) if each.numel()]
wide = lambda x: x.to(torch.promote_types(x.dtype, torch.float64)) if x.is_floating_point() or x.is_complex() else x
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    eager = flat(Model().eval()(*fresh()))
    exact = flat(Model().double().eval()(*map(wide, fresh())))
    for number, (e, a, x) in enumerate(zip(eager, flat(run(Model().eval(), fresh)), exact, strict=True)):
        far = off(a, x) if (a.dtype, a.shape) == (e.dtype, e.shape) else torch.full(e.shape, torch.inf)
        place, limit = far.argmax(), 16 * max([*off(e, x).flatten().tolist(), torch.finfo(torch.result_type(e, 1.0)).eps])
        error, at = far.flatten()[place].item(), [*map(int, torch.unravel_index(place, e.shape))]
        fault |= (wrong := error > limit)
        words = f"{a.dtype}{list(a.shape)} for {e.dtype}{list(e.shape)}, error {error:.3g}, limit {limit:.3g}"
        print(f"{name}, output {number}: {words}{': wrong' * wrong}")
        e, a, x = (value.flatten()[place].item() for value in (e, a, x))
        print(f"  at {at}: eager {e}  iree/vulkan@device=swiftshader {a}  float64 {x}")
print("FAULT" if fault else "NO FAULT")
sys.exit(int(fault))
