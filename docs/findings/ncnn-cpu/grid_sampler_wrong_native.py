"""ncnn: GridSample with reflection far outside. Exit status 1: the fault is there; 0: it is gone; 2: not checked."""

import sys
import traceback

PARAM = """7767517
3 3
Input      in0    0 1 in0
Input      in1    0 1 in1
GridSample sample 2 1 in0 in1 out0 0=1 1=3 2=1
"""


def main():
    import ncnn
    import numpy as np

    net = ncnn.Net()
    net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = False
    net.opt.use_bf16_packed = net.opt.use_bf16_storage = False
    assert net.load_param_mem(PARAM) == 0
    image = np.arange(10, 15, dtype="float32").reshape(1, 1, 5)
    places = np.array([-7.5, -5.5, -3.5, -2, 0, 1, 2, 2.75, 3.5, 5.5, 7.5], dtype="float32")
    extractor = net.create_extractor()
    extractor.input("in0", ncnn.Mat(image).clone())
    extractor.input("in1", ncnn.Mat(np.stack([places, 0 * places], -1)[None]).clone())
    found = np.array(extractor.extract("out0")[1]).ravel()
    pixels = (places + 1) / 2 * 4  # align_corners: -1 and 1 are the centres of the first and the last pixel
    right = 10 + np.abs((pixels + 4) % 8 - 4)  # a triangle wave: each border reflects as often as it takes
    print("ncnn", ncnn.__version__)
    for row in zip(places, found, right):
        print("x = {:g}: ncnn {:g}, right {:g}".format(*row))
    near = np.abs(places) <= 3
    assert np.allclose(found[near], right[near], atol=1e-3), "another fault"
    return int(not np.allclose(found, right, atol=1e-3))


try:
    status = main()
except Exception:
    traceback.print_exc()
    status = 2
if status != 2:
    print("FAULT" if status else "NO FAULT")
sys.exit(status)
