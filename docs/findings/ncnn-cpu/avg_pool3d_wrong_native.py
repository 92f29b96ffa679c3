"""ncnn: full padding counts elements beyond the input. Exit status 1: the fault is there; 0: it is gone; 2: not checked.

Three ones, kernel 2, stride 2, no padding, full padding (5=0): the second window holds one element, whose average is 1.
With avgpool_count_include_pad=0 (6=0) ncnn gives 1, with avgpool_count_include_pad=1 it gives less, though there is no
padding that could count.
"""
import sys
import traceback

PARAM = """7767517
2 2
Input in0     0 1 in0
LAYER average 1 1 in0 out0 0=1 1=2 2=2 3=0 5=0 6=COUNT
"""


def main():
    import ncnn
    import numpy as np

    print("ncnn", ncnn.__version__)
    wrong = False
    for layer, shape, more in (
        ("Pooling1D", (1, 3), ""),
        ("Pooling", (1, 3, 3), " 11=2 12=2 13=0"),
        ("Pooling3D", (1, 3, 3, 3), " 11=2 12=2 13=0 21=2 22=2 23=0"),
    ):
        found = []
        for count in "01":
            net = ncnn.Net()
            text = PARAM.replace("LAYER", layer).replace("COUNT", count + more)
            assert net.load_param_mem(text) == 0
            extractor = net.create_extractor()
            extractor.input("in0", ncnn.Mat(np.ones(shape, dtype="float32")).clone())
            found.append(np.array(extractor.extract("out0")[1]).flatten())
        print(layer, "of ones: with 6=0", found[0], "with 6=1", found[1])
        if not np.allclose(found[0], 1):
            raise AssertionError("6=0 does not give ones: this is another fault")
        wrong |= not np.allclose(found[1], 1)
    return int(wrong)


try:
    status = main()
except Exception:
    traceback.print_exc()
    status = 2
if status != 2:
    print("FAULT" if status else "NO FAULT")
sys.exit(status)
