"""IREE: uint8 of 128 and more is widened as a signed number.

Exit status 1: the fault is there; 0: it is gone; 2: not checked.
"""
import sys
import traceback

MLIR = """
func.func @main(%x: !torch.vtensor<[4],ui8>) -> !torch.vtensor<[4],f32> {
  %c = torch.constant.int 255
  %y = torch.aten.div.Scalar %x, %c : !torch.vtensor<[4],ui8>, !torch.int -> !torch.vtensor<[4],f32>
  return %y : !torch.vtensor<[4],f32>
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
    x = np.array([200, 255, 7, 128], dtype="uint8")
    found, right = np.asarray(function(x).to_host()), (x / np.float32(255)).astype("float32")
    print("of", x, "/ 255 IREE gives", found, "right is", right)
    return int(np.abs(found - right).max() > 1e-6)


try:
    status = main()
except Exception:
    traceback.print_exc()
    status = 2
if status != 2:
    print("FAULT" if status else "NO FAULT")
sys.exit(status)
