"""ConvTranspose of three spatial dimensions in ONNX Runtime's WebGPU provider. Exit status 1: the fault is there; 0: gone; 2: not checked."""
import ctypes, ctypes.util, os, sys

sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import numpy as np, onnx, onnxruntime
from onnx import TensorProto, helper

driver = os.environ.setdefault("VK_DRIVER_FILES", "/usr/lib/chromium/vk_swiftshader_icd.json")
ctypes.CDLL(ctypes.util.find_library("vulkan") or f"{os.path.dirname(driver)}/libvulkan.so.1", ctypes.RTLD_GLOBAL)
print("onnx", onnx.__version__, "onnxruntime-webgpu", onnxruntime.__version__)


def run(operator, operands, providers=("WebGpuExecutionProvider",)):
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in operands.items()]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph([helper.make_node(operator, ["x", "w"], ["y"])], "model", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9).SerializeToString()
    options = onnxruntime.SessionOptions()
    if providers == ("WebGpuExecutionProvider",):
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    session = onnxruntime.InferenceSession(model, options, enable_fallback=0, providers=list(providers))
    return session.run(None, operands)[0]


operands = {"x": np.ones((1, 2, 3, 3, 3), "float32"), "w": np.ones((2, 2, 2, 2, 2), "float32")}
flat = {"x": operands["x"][:, :, 0], "w": operands["w"][:, :, 0]}
print("CPU provider", run("ConvTranspose", operands, providers=("CPUExecutionProvider",)).shape)
print("WebGPU, Conv of three", run("Conv", operands).shape)
print("WebGPU, ConvTranspose of two", run("ConvTranspose", flat).shape)
fault = False
# With the CPU provider to fall back to, and without.
for providers in (("WebGpuExecutionProvider", "CPUExecutionProvider"), ("WebGpuExecutionProvider",)):
    try:
        print(*providers, run("ConvTranspose", operands, providers=providers).shape)
    except Exception as error:
        print(*providers, type(error).__name__, str(error)[:300])
        if "Only Conv2d or Conv1d are supported" not in str(error):
            raise  # another failure: not checked
        fault = True
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
