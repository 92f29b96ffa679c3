"""onnxruntime/webgpu: `addmm` whose addend has no dimensions ends the process where a size is above 8

Condition: the first operand of `torch.addmm` is a 0-d tensor, which becomes `C` of `Gemm`, and the rows, the columns
or the inner size are above 8.
Seen with torch 2.13.0+cpu, onnxruntime-webgpu 1.27.0, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import ctypes, ctypes.util, os, platform, signal, subprocess, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'VK_DRIVER_FILES': '/usr/lib/chromium/vk_swiftshader_icd.json'})  # before PyTorch is imported
import torch, onnxruntime
PACKAGES = ('torch', 'onnxruntime-webgpu', 'onnx', 'onnxscript')
PROPERTIES = {}
LIMIT_S = 150
SIGNAL = "SIGABRT"

class Model(torch.nn.Module):
    def forward(self, x0, x1, x2):
        return torch.addmm(x0, x1, x2)

CASES = {
    "smallest": (Model, lambda: (torch.tensor(0.5), torch.ones(9, 1), torch.ones(1, 1))),
    "ordinary size": (Model, lambda: (torch.tensor(0.5), torch.ones(64, 32), torch.ones(32, 16))),
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

if sys.argv[1:]:  # one case on the platform, in a process of its own
    Model, fresh = CASES[sys.argv[1]]
    run(Model().eval(), fresh)
    sys.exit()
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    print(f"{name}: eager gives", Model().eval()(*fresh()), flush=True)
    status = subprocess.run([sys.executable, __file__, name], timeout=LIMIT_S).returncode
    ended = signal.Signals(-status).name if status < 0 else ""
    print(f"{name}: onnxruntime/webgpu@device=swiftshader", f"ends with {ended}" if ended else "fails in another way" if status else "runs it")
    if status and not (ended and SIGNAL in ("", ended)):
        sys.exit(print("Another fault than the one that this script shows.") or 2)
    fault |= bool(status)
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
