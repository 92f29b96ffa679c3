"""ONNX initializers without elements in OpenVINO. Exit status 1: the fault is there; 0: gone; 2: not checked."""
import sys
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import numpy as np, onnx, openvino as ov
from onnx import TensorProto, helper, numpy_helper, parser

# Appends 0, 1, ... n - 1 to an empty list, as the exporter writes `embedding_bag(padding_idx=0)`.
LOOP = """<ir_version: 9, opset_import: ["": 20]> loop (int64 n) => (int64[length] y)
<int64[0] empty = {}, int64 zero = {0}, int64 one = {1}, int64[1] flat = {-1}, bool yes = {1}> {
  y, last = Loop (, yes, empty, zero) <body = body (int64 step, bool on, int64[old] list, int64 i)
    => (bool more, int64[new] longer, int64 next) {
      element = Reshape (i, flat)
      longer = Concat <axis = 0> (list, element)
      next = Add (i, one)
      more = Less (next, n)
    }>
}"""

print("openvino", ov.__version__, "onnx", onnx.__version__)
x, wrong = np.arange(12, dtype="float32").reshape(2, 6), 0
for operator, attributes, empty, right in (
    ("Gather", {"axis": 1}, np.zeros(0, "int64"), (2, 0)),
    ("Mul", {}, np.zeros((0, 1, 1), "float32"), (0, 2, 6)),
):
    graph = helper.make_graph(
        [helper.make_node(operator, ["x", "empty"], ["y"], **attributes)],
        operator,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, right)],
        [numpy_helper.from_array(empty, "empty")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.checker.check_model(model, full_check=True)
    read = ov.Core().read_model(model.SerializeToString())
    (constant,) = (node for node in read.get_ordered_ops() if node.get_friendly_name() == "empty")
    found = ov.Core().compile_model(read, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})([x])[0]
    print(f"{operator} with an initializer of shape {empty.shape}: OpenVINO reads {constant}")
    print(f"  and gives shape {found.shape}, {found.ravel()}; right is shape {right}")
    wrong += found.shape != right
loop = parser.parse_model(LOOP)
onnx.checker.check_model(loop)
try:
    ov.Core().read_model(loop.SerializeToString())
    print("a Loop that appends to an initializer of shape (0,): OpenVINO reads it")
except Exception as error:
    if "Accessing out-of-range dimension" not in str(error):
        raise
    print("a Loop that appends to an initializer of shape (0,): Accessing out-of-range dimension")
    wrong += 1
sys.exit(print("FAULT" if wrong else "NO FAULT") or int(wrong > 0))
