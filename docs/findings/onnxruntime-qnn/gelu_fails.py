"""onnxruntime/qnn: operators that v68 lacks are taken, and do not compile: `gelu`, `elu`, `round`, `where`

Condition: `gelu`, `elu`, `round`, `atan`, `cumsum`, `where`, `conv3d`, `group_norm`, `instance_norm` or `rms_norm` of
float32 on a chip of v68, which is the provider's default.
onnxruntime/qnn was not run by hardware (simulated).
Seen with torch 2.13.0+cpu, onnxruntime-qnn 2.7.0, onnxruntime 1.32.0, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch, onnxruntime, onnxruntime_qnn
PACKAGES = ('torch', 'onnxruntime-qnn', 'onnxruntime', 'onnx', 'onnxscript')
PROPERTIES = {'offload_graph_io_quantization': '0'}
FAILURE = ("EPFail", "Failed to finalize QNN graph")

class Round(torch.nn.Module):
    def forward(self, x0):
        return torch.round(x0)

class Where(torch.nn.Module):
    def forward(self, x0):
        return torch.where(x0 > 0, x0, x0 * 2)

CASES = {
    "smallest": (torch.nn.GELU, lambda: (torch.tensor([1.0]),)),
    "ordinary size": (torch.nn.GELU, lambda: (torch.linspace(-2, 2, 64).reshape(4, 16),)),
    "round": (Round, lambda: (torch.linspace(-2, 2, 64).reshape(4, 16),)),
    "where": (Where, lambda: (torch.linspace(-2, 2, 64).reshape(4, 16),)),
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

flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out])]
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    print(f"{name}: eager gives", *(f"{value.dtype} {list(value.shape)}" for value in flat(Model().eval()(*fresh()))))
    try:
        run(Model().eval(), fresh)
        print(f"{name}: onnxruntime/qnn runs it")
    except Exception as problem:
        print(f"{name}: onnxruntime/qnn raised:", type(problem).__name__, str(problem)[-2000:])
        while problem and not (type(problem).__name__ == FAILURE[0] and FAILURE[1] in str(problem)):
            problem = problem.__cause__ or problem.__context__
        if not problem:
            sys.exit(print("It is another failure than the one that this script shows.") or 2)
        fault = True
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
