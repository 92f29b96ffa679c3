"""ncnn: asinh of small numbers loses digits. Exit status 1: the fault is there; 0: it is gone; 2: not checked."""
import sys
import traceback

PARAM = """7767517
2 2
Input   in0   0 1 in0
UnaryOp asinh 1 1 in0 out0 0=23
"""


def main():
    import ncnn
    import numpy as np

    net = ncnn.Net()
    net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = False
    net.opt.use_bf16_packed = net.opt.use_bf16_storage = False
    assert net.load_param_mem(PARAM) == 0
    x = np.array([1e-9, 1e-6, 0.001, 0.5], dtype="float32")
    extractor = net.create_extractor()
    extractor.input("in0", ncnn.Mat(x).clone())
    found, right = np.array(extractor.extract("out0")[1]), np.arcsinh(x.astype("float64"))
    error = np.abs(found - right) / np.abs(right)
    print("ncnn", ncnn.__version__)
    for row in zip(x, found, right, error):
        print("asinh({:.3g}): ncnn {:.9g}, right {:.9g}, relative error {:.2g}".format(*row))
    return int(error.max() > 16 * np.finfo("float32").eps)


try:
    status = main()
except Exception:
    traceback.print_exc()
    status = 2
if status != 2:
    print("FAULT" if status else "NO FAULT")
sys.exit(status)
