"""Broadcast of a tensor without elements on OpenVINO's CPU plugin. Exit status 1: the fault is there; 0: gone; 2: not checked."""
import signal, subprocess, sys

sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import numpy as np, openvino as ov
from openvino import opset13 as op

if sys.argv[1:]:  # in a process of its own
    for size, elements in ((3, 3), (-1, 0), (0, 0)):  # -1: dynamic
        x = op.parameter([size], np.float32)
        model = ov.Model([op.broadcast(x, op.constant(np.array([elements])))], [x])
        compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        found = compiled([np.ones(elements, "float32")])[0]
        print("an input of", [size], "with", elements, "elements gives shape", list(found.shape), flush=True)
    sys.exit()
print("openvino", ov.__version__)
done = subprocess.run([sys.executable, __file__, "run"], stdout=subprocess.PIPE, text=True, timeout=120)
fault = done.returncode == -signal.SIGFPE
print(done.stdout.strip())
print("then it ends with", "SIGFPE" if fault else f"status {done.returncode}")
if done.stdout.count("gives shape") < 2 or not (fault or done.returncode == 0):
    sys.exit(print("Another failure than the one that this script shows.") or 2)
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
