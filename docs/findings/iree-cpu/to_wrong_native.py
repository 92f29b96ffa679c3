"""IREE: a float from 128 to 255 becomes 127 as uint8.

Exit status 1: the fault is there; 0: it is gone; 2: not checked.
"""
import sys
import traceback

MLIR = """
func.func @main(%x: !torch.vtensor<[5],f32>) -> !torch.vtensor<[5],f32> {
  %uint8 = torch.constant.int 0
  %float32 = torch.constant.int 6
  %y = torch.prims.convert_element_type %x, %uint8 : !torch.vtensor<[5],f32>, !torch.int -> !torch.vtensor<[5],ui8>
  %z = torch.prims.convert_element_type %y, %float32 : !torch.vtensor<[5],ui8>, !torch.int -> !torch.vtensor<[5],f32>
  return %z : !torch.vtensor<[5],f32>
}
"""
CPU = ["--iree-llvmcpu-target-cpu=generic"]


def main():
    from importlib.metadata import version

    import iree.compiler
    import iree.runtime
    import numpy as np

    print("iree-base-compiler", version("iree-base-compiler"))
    program = iree.compiler.compile_str(MLIR, input_type="torch", target_backends=["llvm-cpu"], extra_args=CPU)
    config = iree.runtime.Config("local-task")
    module = iree.runtime.VmModule.copy_buffer(config.vm_instance, program)
    function = iree.runtime.load_vm_module(module, config).main
    x = np.array([1, 127, 128, 200.5, 255], dtype="float32")
    found, right = np.asarray(function(x).to_host()), x.astype("uint8").astype("float32")
    print("of", x, "IREE gives", found, "right is", right)
    return int((found != right).any())


try:
    status = main()
except Exception:
    traceback.print_exc()
    status = 2
if status != 2:
    print("FAULT" if status else "NO FAULT")
sys.exit(status)
