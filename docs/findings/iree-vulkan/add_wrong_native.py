"""A sum of float16 in IREE's own language, for Vulkan's default target. Exit status 1: the fault is there; 0: gone; 2: not checked."""

import os
import sys
import traceback

DRIVER = "/usr/lib/chromium/vk_swiftshader_icd.json"
PROGRAM = """
func.func @main(%a: tensor<4xf16>) -> tensor<4xf16> {
  %r = arith.addf %a, %a : tensor<4xf16>
  return %r : tensor<4xf16>
}
"""


def main():
    if "VK_DRIVER_FILES" not in os.environ and os.path.exists(DRIVER):
        os.environ["VK_DRIVER_FILES"] = DRIVER
    from importlib.metadata import version

    import iree.compiler
    import iree.runtime
    import numpy as np

    print("iree-base-compiler", version("iree-base-compiler"), "iree-base-runtime", version("iree-base-runtime"))
    program = iree.compiler.compile_str(PROGRAM, target_backends=["vulkan-spirv"])
    config = iree.runtime.Config("vulkan")
    module = iree.runtime.VmModule.copy_buffer(config.vm_instance, program)
    x = np.array([1, 2, 3, 4], np.float16)
    result = iree.runtime.load_vm_module(module, config).main(x)
    # DeviceArray.to_host() wants memory that is aligned to pages.
    source, kinds, uses = result._buffer_view.get_buffer(), iree.runtime.MemoryType, iree.runtime.BufferUsage
    kind, use = kinds.HOST_LOCAL | kinds.DEVICE_VISIBLE, uses.TRANSFER | uses.MAPPING
    copy = config.device.allocator.allocate_buffer(kind, use, source.byte_length())
    done = config.device.create_semaphore(0)
    config.device.queue_copy(source, copy, [], [(done, 1)])
    done.wait(1)
    found = np.array(copy.map().asarray((4,), np.dtype(np.float16)))
    print("found", found.tolist(), "right", (x + x).tolist())
    fault = not np.array_equal(found, x + x)
    print("FAULT" if fault else "NO FAULT")
    return int(fault)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
