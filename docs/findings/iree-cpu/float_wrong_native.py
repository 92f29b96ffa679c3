"""IREE: the bytes of a float64 operand are read as float32.

Exit status 1: the fault is there; 0: it is gone; 2: not checked.
"""

import sys
import traceback

MLIR = """
func.func @main(%x: !torch.vtensor<[4],f64>) -> !torch.vtensor<[4],f32> {
  %float32 = torch.constant.int 6
  %y = torch.prims.convert_element_type %x, %float32 : !torch.vtensor<[4],f64>, !torch.int -> !torch.vtensor<[4],f32>
  return %y : !torch.vtensor<[4],f32>
}
"""
CPU = ["--iree-llvmcpu-target-cpu=generic"]
KEPT = "--iree-input-demote-f64-to-f32=false"


def main():
    from importlib.metadata import version

    import iree.compiler
    import iree.runtime
    import numpy as np

    print("iree-base-compiler", version("iree-base-compiler"))
    x, wrong = np.array([1, 2, 3, 4], dtype="float64"), {}
    for name, flags in {"default": CPU, "float64 kept": [*CPU, KEPT]}.items():
        program = iree.compiler.compile_str(MLIR, input_type="torch", target_backends=["llvm-cpu"], extra_args=flags)
        config = iree.runtime.Config("local-task")
        module = iree.runtime.VmModule.copy_buffer(config.vm_instance, program)
        found = np.asarray(iree.runtime.load_vm_module(module, config).main(x).to_host())
        print(name, "of", x, "IREE gives", found, "first half of the bytes as float32", x.view("float32")[:4])
        wrong[name] = bool((found != x).any())
    if wrong["float64 kept"]:
        raise RuntimeError("another fault: not checked")
    return int(wrong["default"])


try:
    status = main()
except Exception:
    traceback.print_exc()
    status = 2
if status != 2:
    print("FAULT" if status else "NO FAULT")
sys.exit(status)
