"""int8 `Resize` of mode linear to a smaller image with RKNN-Toolkit2. Exit status 1: the fault is there; 0: gone; 2: not checked.

The toolkit quantises the model itself, with the operand as its calibration data. The coordinates are `half_pixel`, as
`torch.nn.functional.interpolate(mode="bilinear")` is exported. The same model in float16 is right.
"""
import os, sys, tempfile
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import numpy as np, onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from rknn.api import RKNN
out = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the toolkit prints there
folder = tempfile.TemporaryDirectory()
os.chdir(folder.name)  # and writes into the folder

print("rknn-toolkit2", version("rknn-toolkit2"), "onnx", onnx.__version__, "simulated", file=out)
faults = 0
for size, result in ((9, 3), (8, 16), (8, 4), (8, 5), (64, 32)):
    x = (np.arange(3 * size * size, dtype="float32") * 37 % 101).reshape(1, 3, size, size)
    node = helper.make_node(
        "Resize", ["x", "", "", "sizes"], ["y"], mode="linear", coordinate_transformation_mode="half_pixel"
    )
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 3, result, result))],
        [numpy_helper.from_array(np.array([1, 3, result, result]), "sizes")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    (right,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.save("x.npy", x), open("data.txt", "w").write("x.npy\n"), onnx.save(model, "model.onnx")
    for int8 in (False, True):
        rknn = RKNN(verbose=False)
        rknn.config(target_platform="rk3588")
        rknn.load_onnx("model.onnx")
        rknn.build(do_quantization=int8, dataset="data.txt" if int8 else None)
        rknn.init_runtime()
        (found,) = rknn.inference([x], data_format="nchw")
        off = np.abs(found - right)
        place = np.unravel_index(off.argmax(), off.shape)
        name = f"{size} to {result}, {'int8' if int8 else 'float16'}"
        print(f"{name}: largest error {off.max():.2f}: {found[place]:.2f} for {right[place]:.2f}", file=out)
        faults += int(off.max() > 4 * 101 / 255)  # four steps of the operand's range
sys.exit(print("FAULT" if faults else "NO FAULT", file=out) or int(faults > 0))
