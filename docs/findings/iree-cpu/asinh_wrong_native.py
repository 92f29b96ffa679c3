"""IREE: math.asinh of -5000 is -inf, and small values are lost.

Exit status 1: the fault is there; 0: it is gone; 2: not checked.
"""
import sys
import traceback

MLIR = """
func.func @main(%x: tensor<6xf32>) -> tensor<6xf32> {
  %empty = tensor.empty() : tensor<6xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(d) -> (d)>, affine_map<(d) -> (d)>],
      iterator_types = ["parallel"]} ins(%x : tensor<6xf32>) outs(%empty : tensor<6xf32>) {
  ^bb0(%a: f32, %c: f32):
    %r = math.asinh %a : f32
    linalg.yield %r : f32
  } -> tensor<6xf32>
  return %z : tensor<6xf32>
}
"""
CPU = ["--iree-llvmcpu-target-cpu=generic"]


def main():
    from importlib.metadata import version

    import iree.compiler
    import iree.runtime
    import numpy as np

    print("iree-base-compiler", version("iree-base-compiler"))
    program = iree.compiler.compile_str(MLIR, input_type="none", target_backends=["llvm-cpu"], extra_args=CPU)
    config = iree.runtime.Config("local-task")
    module = iree.runtime.VmModule.copy_buffer(config.vm_instance, program)
    function = iree.runtime.load_vm_module(module, config).main
    x = np.array([-5000, -1000, -100, 1e-9, 1e20, 3], dtype="float32")
    found, right = np.asarray(function(x).to_host()), np.arcsinh(x)
    for row in zip(x, found, right):
        print("asinh({}): IREE {}, right {}".format(*row))
    return int(not np.allclose(found, right, rtol=1e-3, atol=0))


try:
    status = main()
except Exception:
    traceback.print_exc()
    status = 2
if status != 2:
    print("FAULT" if status else "NO FAULT")
sys.exit(status)
