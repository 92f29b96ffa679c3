"""Broadcast of a tensor without elements on OpenVINO's CPU plugin. Exit status 1: the fault is there; 0: gone; 2: not checked."""

import signal
import subprocess
import sys
import traceback


def broadcast(size, elements):
    """Compiles and runs a model of one Broadcast of a tensor of the given size (-1: dynamic) to its own shape."""
    import numpy as np
    import openvino as ov
    from openvino import opset13 as op

    x = op.parameter([size], np.float32)
    model = ov.Model([op.broadcast(x, op.constant(np.array([elements])))], [x])
    compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    print("shape", [size], "gives shape", list(compiled([np.ones(elements, "float32")])[0].shape))


def main():
    import openvino as ov

    print("openvino", ov.__version__)
    statuses = []
    for size, elements in ((3, 3), (-1, 0), (0, 0)):
        ended = subprocess.run([sys.executable, __file__, str(size), str(elements)], timeout=120)
        print("size", size, "with", elements, "elements: status", ended.returncode)
        statuses.append(ended.returncode)
    if statuses[:2] != [0, 0] or statuses[2] not in (0, -signal.SIGFPE):
        raise RuntimeError(f"unexpected statuses {statuses}")
    return int(statuses[2] != 0)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        broadcast(int(sys.argv[1]), int(sys.argv[2]))
        sys.exit(0)
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    if status != 2:
        print("FAULT" if status else "NO FAULT")
    sys.exit(status)
