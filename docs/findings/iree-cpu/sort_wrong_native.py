"""IREE: a sort of uint8 compares signed numbers.

Exit status 1: the fault is there; 0: it is gone; 2: not checked.
"""
import sys
import traceback

MLIR = """
func.func @main(%x: !torch.vtensor<[4],ui8>) -> !torch.vtensor<[4],si64> {
  %dim = torch.constant.int 0
  %down = torch.constant.bool false
  %y, %i = torch.aten.sort %x, %dim, %down : !torch.vtensor<[4],ui8>, !torch.int, !torch.bool -> !torch.vtensor<[4],ui8>, !torch.vtensor<[4],si64>
  return %i : !torch.vtensor<[4],si64>
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
    found, right = np.asarray(function(x).to_host()), np.argsort(x)
    print("of", x, "IREE gives the order", x[found], "right is", x[right])
    return int((found != right).any())


try:
    status = main()
except Exception:
    traceback.print_exc()
    status = 2
if status != 2:
    print("FAULT" if status else "NO FAULT")
sys.exit(status)
