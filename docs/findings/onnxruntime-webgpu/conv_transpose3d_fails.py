"""onnxruntime/webgpu: `ConvTranspose3d` is taken from the CPU provider, and fails when it runs

Condition: a transposed convolution of three spatial dimensions.
Seen with torch 2.13.0+cpu, onnxruntime-webgpu 1.27.0, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import ctypes, ctypes.util, os, platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'VK_DRIVER_FILES': '/usr/lib/chromium/vk_swiftshader_icd.json'})  # before PyTorch is imported
import torch, onnxruntime
PACKAGES = ('torch', 'onnxruntime-webgpu', 'onnx', 'onnxscript')
PROPERTIES = {}
FAILURE = ("InvalidArgument", "Only Conv2d or Conv1d are supported")

class Model(torch.nn.Module):
    def forward(self, x0, x1):
        return torch.nn.functional.conv_transpose3d(x0, x1)

class Upsampling(torch.nn.Module):
    def forward(self, x0, x1):
        return torch.nn.functional.conv_transpose3d(x0, x1, stride=2)

CASES = {
    "smallest": (Model, lambda: (torch.ones(1, 1, 1, 1, 1), torch.ones(1, 1, 1, 1, 1))),
    "ordinary size": (Upsampling, lambda: (torch.linspace(-1, 1, 2048).reshape(1, 32, 4, 4, 4), torch.full((32, 16, 2, 2, 2), 0.1))),
}

def run(model, fresh):
    driver = os.environ.get("VK_DRIVER_FILES", "")
    ctypes.CDLL(ctypes.util.find_library("vulkan") or f"{os.path.dirname(driver)}/libvulkan.so.1", ctypes.RTLD_GLOBAL)
    program = torch.onnx.export(model, fresh(), dynamo=True, verbose=False)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    session = onnxruntime.InferenceSession(
        program.model_proto.SerializeToString(), options, enable_fallback=0,
        providers=[("WebGpuExecutionProvider", PROPERTIES)],
    )  # fmt: skip
    feeds = {given.name: tensor.numpy() for given, tensor in zip(session.get_inputs(), fresh(), strict=True)}
    return [torch.as_tensor(array) for array in session.run(None, feeds)]

flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out])]
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    print(f"{name}: eager gives", *(f"{value.dtype} {list(value.shape)}" for value in flat(Model().eval()(*fresh()))))
    try:
        run(Model().eval(), fresh)
        print(f"{name}: onnxruntime/webgpu@device=swiftshader runs it")
    except Exception as problem:
        print(f"{name}: onnxruntime/webgpu@device=swiftshader raised:", type(problem).__name__, str(problem)[-2000:])
        while problem and not (type(problem).__name__ == FAILURE[0] and FAILURE[1] in str(problem)):
            problem = problem.__cause__ or problem.__context__
        if not problem:
            sys.exit(print("It is another failure than the one that this script shows.") or 2)
        fault = True
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
