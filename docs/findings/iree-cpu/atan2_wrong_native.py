"""IREE: math.atan2 of two zeros is NaN.

Exit status 1: the fault is there; 0: it is gone; 2: not checked.
"""
import sys
import traceback

MLIR = """
func.func @main(%y: tensor<4xf32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %empty = tensor.empty() : tensor<4xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(d) -> (d)>, affine_map<(d) -> (d)>, affine_map<(d) -> (d)>],
      iterator_types = ["parallel"]} ins(%y, %x : tensor<4xf32>, tensor<4xf32>) outs(%empty : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %r = math.atan2 %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  return %z : tensor<4xf32>
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
    y, x = np.array([0, 0, -0.0, 1], dtype="float32"), np.array([0, 1, -1, 2], dtype="float32")
    found, right = np.asarray(function(y, x).to_host()), np.arctan2(y, x)
    for row in zip(y, x, found, right):
        print("atan2({}, {}): IREE {}, right {}".format(*row))
    return int(not np.allclose(found, right, rtol=1e-5))


try:
    status = main()
except Exception:
    traceback.print_exc()
    status = 2
if status != 2:
    print("FAULT" if status else "NO FAULT")
sys.exit(status)
