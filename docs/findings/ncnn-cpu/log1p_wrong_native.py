"""ncnn: log1p and atanh of small numbers lose digits. Exit status 1: the fault is there; 0: it is gone; 2: not checked."""
import sys
import traceback

PARAM = """7767517
2 2
Input   in0   0 1 in0
UnaryOp one   1 1 in0 out0 0=OPERATOR
"""


def main():
    import ncnn
    import numpy as np

    print("ncnn", ncnn.__version__)
    x, wrong = np.array([9e-5, 1.01e-4, 0.001, 0.011, 0.5], dtype="float32"), False
    for name, operator, right in (("log1p", 27, np.log1p), ("atanh", 26, np.arctanh)):
        net = ncnn.Net()
        net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = False
        net.opt.use_bf16_packed = net.opt.use_bf16_storage = False
        assert net.load_param_mem(PARAM.replace("OPERATOR", str(operator))) == 0
        extractor = net.create_extractor()
        extractor.input("in0", ncnn.Mat(x).clone())
        found, exact = np.array(extractor.extract("out0")[1]), right(x.astype("float64"))
        error = np.abs(found - exact) / np.abs(exact)
        for row in zip(x, found, exact, error):
            print(name + "({:.3g}): ncnn {:.9g}, right {:.9g}, relative error {:.2g}".format(*row))
        wrong |= bool(error.max() > 16 * np.finfo("float32").eps)
    return int(wrong)


try:
    status = main()
except Exception:
    traceback.print_exc()
    status = 2
if status != 2:
    print("FAULT" if status else "NO FAULT")
sys.exit(status)
