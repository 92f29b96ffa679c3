"""IREE: an assignment by a mask that selects nothing writes an element.

Exit status 1: the fault is there; 0: it is gone; 2: not checked.
"""
import sys
import traceback

MLIR = """
func.func @main(%x: !torch.vtensor<[8],f32>, %mask: !torch.vtensor<[8],i1>) -> !torch.vtensor<[8],f32> {
  %value = torch.vtensor.literal(dense<0.0> : tensor<f32>) : !torch.vtensor<[],f32>
  %false = torch.constant.bool false
  %index = torch.prim.ListConstruct %mask : (!torch.vtensor<[8],i1>) -> !torch.list<optional<vtensor>>
  %y = torch.aten.index_put %x, %index, %value, %false : !torch.vtensor<[8],f32>, !torch.list<optional<vtensor>>, !torch.vtensor<[],f32>, !torch.bool -> !torch.vtensor<[8],f32>
  return %y : !torch.vtensor<[8],f32>
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
    x = np.linspace(1, 8, 8, dtype="float32")
    one, none = np.array([False, True] + [False] * 6), np.zeros(8, dtype=bool)
    right = x.copy()
    right[one] = 0
    selected, nothing = np.asarray(function(x, one).to_host()), np.asarray(function(x, none).to_host())
    print("one element selected: IREE gives", selected)
    print("none selected: IREE gives", nothing, "right is", x)
    if (selected != right).any():
        raise AssertionError("another fault: a mask that selects one element gives a wrong result")
    return int((nothing != x).any())


try:
    status = main()
except Exception:
    traceback.print_exc()
    status = 2
if status != 2:
    print("FAULT" if status else "NO FAULT")
sys.exit(status)
