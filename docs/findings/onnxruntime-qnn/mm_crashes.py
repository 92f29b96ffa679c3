"""onnxruntime/qnn: a tensor without elements ends the process (SIGFPE): `a @ b`, `relu`, `softmax`, `sum`

Condition: an operand has no elements: an inner size of 0 or no rows in `a @ b`, an empty batch in `relu`, `softmax`
or `sum`.
onnxruntime/qnn was not run by hardware (simulated).
Seen with torch 2.13.0+cpu, onnxruntime-qnn 2.7.0, onnxruntime 1.32.0, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import platform, signal, subprocess, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch, onnxruntime, onnxruntime_qnn
PACKAGES = ('torch', 'onnxruntime-qnn', 'onnxruntime', 'onnx', 'onnxscript')
PROPERTIES = {'offload_graph_io_quantization': '0'}
LIMIT_S = 150
SIGNAL = "SIGFPE"

class Model(torch.nn.Module):
    def forward(self, x0, x1):
        return x0 @ x1

class Relu(torch.nn.Module):
    def forward(self, x0):
        return torch.relu(x0)

CASES = {
    "smallest": (Model, lambda: (torch.zeros(3, 0), torch.zeros(0, 4))),
    "ordinary size": (Model, lambda: (torch.zeros(0, 16), torch.zeros(16, 8))),
    "relu": (Relu, lambda: (torch.zeros(0, 16),)),
}

def run(model, fresh):
    program = torch.onnx.export(model, fresh(), dynamo=True, verbose=False)
    if not any(each.ep_name == onnxruntime_qnn.EP_NAME for each in onnxruntime.get_ep_devices()):
        onnxruntime.register_execution_provider_library(onnxruntime_qnn.EP_NAME, onnxruntime_qnn.get_library_path())
    devices = [each for each in onnxruntime.get_ep_devices() if each.ep_name == onnxruntime_qnn.EP_NAME]
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    options.add_provider_for_devices(devices[:1], {"backend_path": onnxruntime_qnn.get_qnn_htp_path(), **PROPERTIES})
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString(), options)
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
    print(f"{name}: onnxruntime/qnn", f"ends with {ended}" if ended else "fails in another way" if status else "runs it")
    if status and not (ended and SIGNAL in ("", ended)):
        sys.exit(print("Another fault than the one that this script shows.") or 2)
    fault |= bool(status)
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
