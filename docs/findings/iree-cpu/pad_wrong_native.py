"""IREE: pad by -1 and 1 returns its input.

Exit status 1: the fault is there; 0: it is gone; 2: not checked.
"""
import sys
import traceback

MLIR = """
func.func @main(%x: !torch.vtensor<[2,4],f32>) -> !torch.vtensor<[2,4],f32> {
  %low = torch.constant.int -1
  %high = torch.constant.int 1
  %value = torch.constant.float 0.000000e+00
  %pad = torch.prim.ListConstruct %low, %high : (!torch.int, !torch.int) -> !torch.list<int>
  %y = torch.aten.constant_pad_nd %x, %pad, %value : !torch.vtensor<[2,4],f32>, !torch.list<int>, !torch.float -> !torch.vtensor<[2,4],f32>
  return %y : !torch.vtensor<[2,4],f32>
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
    x = np.arange(1, 9, dtype="float32").reshape(2, 4)
    found, right = np.asarray(function(x).to_host()), np.pad(x[:, 1:], [(0, 0), (0, 1)])
    print("IREE gives", found.tolist(), "right is", right.tolist())
    return int((found != right).any())


try:
    status = main()
except Exception:
    traceback.print_exc()
    status = 2
if status != 2:
    print("FAULT" if status else "NO FAULT")
sys.exit(status)
