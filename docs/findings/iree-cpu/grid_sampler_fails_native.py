"""IREE: grid_sampler of a volume does not compile.

Exit status 1: the fault is there; 0: it is gone; 2: not checked.
"""
import sys
import traceback

MLIR = """
func.func @main(%x: !torch.vtensor<[1,2,3,4,5],f32>, %g: !torch.vtensor<[1,2,2,2,3],f32>) -> !torch.vtensor<[1,2,2,2,2],f32> {
  %int0 = torch.constant.int 0
  %false = torch.constant.bool false
  %y = torch.aten.grid_sampler %x, %g, %int0, %int0, %false : !torch.vtensor<[1,2,3,4,5],f32>, !torch.vtensor<[1,2,2,2,3],f32>, !torch.int, !torch.int, !torch.bool -> !torch.vtensor<[1,2,2,2,2],f32>
  return %y : !torch.vtensor<[1,2,2,2,2],f32>
}
"""
MESSAGE = "incorrect number of indices for extract_element"
CPU = ["--iree-llvmcpu-target-cpu=generic"]


def main():
    from importlib.metadata import version

    import iree.compiler

    print("iree-base-compiler", version("iree-base-compiler"))
    try:
        iree.compiler.compile_str(MLIR, input_type="torch", target_backends=["llvm-cpu"], extra_args=CPU)
    except iree.compiler.CompilerToolError as failure:
        text = str(failure)
        print(*(line for line in text.splitlines() if MESSAGE in line), sep="\n")
        if MESSAGE in text:
            return 1
        raise
    return 0


try:
    status = main()
except Exception:
    traceback.print_exc()
    status = 2
if status != 2:
    print("FAULT" if status else "NO FAULT")
sys.exit(status)
