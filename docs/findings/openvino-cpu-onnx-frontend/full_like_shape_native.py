"""ONNX initializers without elements in OpenVINO. Exit status 1: the fault is there; 0: gone; 2: not checked."""
import sys

sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import numpy as np, onnx, onnx.parser, openvino as ov

HEAD = '<ir_version: 9, opset_import: ["": 20]> '
MODELS = {
    "g (float[2, 6] x) => (float[2, 0] y) <int64[0] empty = {}> { y = Gather <axis = 1> (x, empty) }": (2, 0),
    "g (float[2, 6] x) => (float[0, 2, 6] y) <float[0, 1, 1] empty = {}> { y = Mul (x, empty) }": (0, 2, 6),
}
# Appends 0, 1, ... n - 1 to an empty list, as the exporter writes `embedding_bag(padding_idx=0)`.
LOOP = """loop (int64 n) => (int64[length] y)
<int64[0] empty = {}, int64 zero = {0}, int64 one = {1}, int64[1] flat = {-1}, bool yes = {1}> {
  y, last = Loop (, yes, empty, zero) <body = body (int64 step, bool on, int64[old] list, int64 i)
    => (bool more, int64[new] longer, int64 next) {
      element = Reshape (i, flat)
      longer = Concat <axis = 0> (list, element)
      next = Add (i, one)
      more = Less (next, n)
    }> }"""

print("openvino", ov.__version__, "onnx", onnx.__version__)
x, wrong = np.arange(12, dtype="float32").reshape(2, 6), 0
for text, right in MODELS.items():
    model = onnx.parser.parse_model(HEAD + text)
    onnx.checker.check_model(model, full_check=True)
    read = ov.Core().read_model(model.SerializeToString())
    (constant,) = (node for node in read.get_ordered_ops() if node.get_friendly_name() == "empty")
    found = ov.Core().compile_model(read, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})([x])[0]
    print(text, "OpenVINO reads", constant, "and gives shape", found.shape, "right is", right)
    wrong += found.shape != right
loop = onnx.parser.parse_model(HEAD + LOOP)
onnx.checker.check_model(loop)
try:
    print("a Loop that appends to an initializer of shape (0,):", ov.Core().read_model(loop.SerializeToString()))
except Exception as error:
    if "Accessing out-of-range dimension" not in str(error):
        raise
    print("a Loop that appends to an initializer of shape (0,): Accessing out-of-range dimension")
    wrong += 1
sys.exit(print("FAULT" if wrong else "NO FAULT") or int(wrong > 0))
