"""iree/vulkan: `x * x.sum(1, keepdim=True)` is 0 in elements of (5, 5, 5) and (1, 3, 14, 14); `renorm` leaves elements unscaled

Condition: an elementwise operator reads a sum over a dimension that is not the last, and the operand of the sum, of
float32. The code is a race in each of the sizes (5, 5, 5), (10, 3, 10) and (1, 3, 14, 14). Results are wrong for (5,
5, 5) and (1, 3, 14, 14) on SwiftShader, and for (10, 3, 10) and (1, 3, 14, 14) on lavapipe.

Right for: the sum alone, also of (5, 5, 5); iree/cpu. Seen right, perhaps by the order in which the driver runs the
invocations: a sum over the last two dimensions; (4, 4, 4) and (8, 3, 32) over the first and the last dimension; on
lavapipe (5, 5, 5), (6, 4, 6), (7, 5, 7) and (16, 3, 16).

The compiler puts the sum and the operator behind it into one kernel. The sums are in workgroup memory: one invocation
writes each, others of its workgroup read it, and the SPIR-V has no barrier between (`ControlBarrier`). So an
invocation may read a sum before it is there: a race, whose result depends on the order in which a driver runs the
invocations. The code for the sum alone has no workgroup memory.

Seen with torch 2.13.0+cpu, iree-base-compiler 3.13.0, iree-base-runtime 3.13.0, iree-turbine 3.9.0.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import os
import platform
import sys
import traceback
from importlib.metadata import version

os.environ.update({'VK_DRIVER_FILES': '/usr/lib/chromium/vk_swiftshader_icd.json'})  # before PyTorch is imported

try:
    import torch
    import iree.runtime
    import iree.turbine.aot
    import numpy as np
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)

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


def error(found, exact):
    """The largest difference, relative to the largest magnitude of `exact`.

    Infinity where shapes, NaN or infinities differ, and where results that are no floats differ at all.
    """
    if found.shape != exact.shape:
        return float("inf")
    if not (exact.is_floating_point() or exact.is_complex()):
        return 0.0 if torch.equal(found, exact) else float("inf")
    if exact.is_complex():
        found, exact = torch.view_as_real(found.resolve_conj()), torch.view_as_real(exact.resolve_conj())
    found, exact = found.double(), exact.double()
    finite = exact.isfinite()
    same = torch.equal(found.isnan(), exact.isnan()) and torch.equal(found.isfinite(), finite)
    if not same or not torch.equal(found[exact.isinf()], exact[exact.isinf()]):
        return float("inf")
    if not finite.any():
        return 0.0
    worst, size = (found - exact)[finite].abs().max(), exact[finite].abs().max()
    return float(worst / size) if size else float(worst)


def versions():
    """The versions of the packages, the processor and its instruction set."""
    found = [f"{name} {version(name)}" for name in PACKAGES]
    return ", ".join([*found, platform.machine(), torch.backends.cpu.get_cpu_capability()])


def as_tuple(results):
    return tuple(value.detach() for value in (results if isinstance(results, (tuple, list)) else (results,)))


def furthest(found, right):
    """The place of the element that is furthest off; NaN where the other is none comes first."""
    apart = (found.to(torch.complex128) - right.to(torch.complex128)).abs().nan_to_num(nan=0.0)
    apart[(found != found) != (right != right)] = float("inf")
    return tuple(int(i) for i in torch.unravel_index(apart.flatten().argmax(), apart.shape))


def shows(name, Model, fresh):
    """Whether one case shows the fault."""
    expecteds = as_tuple(Model().eval()(*fresh()))
    widened = [
        x.to(torch.promote_types(x.dtype, torch.float64)) if x.is_floating_point() or x.is_complex() else x
        for x in fresh()
    ]
    exacts = as_tuple(Model().double().eval()(*widened))  # in float64
    founds = as_tuple(run(Model().eval(), fresh))
    fault = False
    for number, (found, expected, exact) in enumerate(zip(founds, expecteds, exacts, strict=True)):
        eps = torch.finfo(expected.dtype).eps if expected.is_floating_point() or expected.is_complex() else 0.0
        off, limit = error(found, exact), 16 * max(error(expected, exact), eps)
        wrong = found.dtype != expected.dtype or off > limit
        fault |= wrong
        kind = f"{str(expected.dtype).removeprefix('torch.')}{list(expected.shape)}"
        print(f"{name}, output {number}: {kind}, error {off:.3g}, limit {limit:.3g}{': wrong' if wrong else ''}")
        if found.dtype != expected.dtype or found.shape != expected.shape:
            print("  eager:", expected.dtype, list(expected.shape), " iree/vulkan@device=swiftshader:", found.dtype, list(found.shape))
        elif found.numel():
            place = furthest(found, exact)
            values = " ".join(f"{side} {value[place].item():.{17 if value.itemsize > 4 else 9}g} " for side, value in (
                ("eager", expected), ("iree/vulkan@device=swiftshader", found), ("float64", exact)))
            print(f"  at {list(place)}: {values}")
    return fault


def main():
    torch.set_printoptions(precision=17)
    print(versions())
    found = False
    for name, (Model, fresh) in CASES.items():
        try:
            found |= shows(name, Model, fresh)
        except Exception:
            traceback.print_exc()
            print(f"{name}: it fails, which is another fault than the one that this script shows.")
            return 2
    print("FAULT" if found else "NO FAULT")
    return int(found)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
