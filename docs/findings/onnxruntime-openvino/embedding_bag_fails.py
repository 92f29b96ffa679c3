"""onnxruntime/openvino: A model with a loop whose body has inputs of unknown rank does not load (`embedding_bag`)

Condition: the exported program holds a Loop, as that of `embedding_bag` does.
Seen with torch 2.13.0+cpu, onnxruntime-openvino 1.24.1, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch
import onnxruntime
PACKAGES = ('torch', 'onnxruntime-openvino', 'onnx', 'onnxscript')
PROPERTIES = {'device_type': 'CPU', 'precision': 'FP32', 'num_of_threads': '1'}

class Model(torch.nn.Module):
    def forward(self, x0, x1, x2):
        return torch.nn.functional.embedding_bag(x1, x0, x2)

CASES = {
    "ordinary size": (Model, lambda: (torch.linspace(-1, 1, 40).reshape(10, 4), torch.tensor([1, 2, 4, 5]), torch.tensor([0, 2]),)),
}
FAILURE = ("Fail", "CPU plug-in doesn't support Parameter operation with dynamic rank")

def run(model, fresh):
    program = torch.onnx.export(model, fresh(), dynamo=True, verbose=False)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    providers = [("OpenVINOExecutionProvider", PROPERTIES), "CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(
        program.model_proto.SerializeToString(), options, providers=providers, enable_fallback=0
    )
    assert len(session.get_providers()) == len(providers), "this onnxruntime has no OpenVINO provider"
    feeds = {given.name: tensor.numpy() for given, tensor in zip(session.get_inputs(), fresh(), strict=True)}
    return [torch.as_tensor(array) for array in session.run(None, feeds)]

flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out])]
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    print(f"{name}: eager gives", *(f"{value.dtype} {list(value.shape)}" for value in flat(Model().eval()(*fresh()))))
    try:
        run(Model().eval(), fresh)
        print(f"{name}: onnxruntime/openvino@precision=f32,threads=1 runs it")
    except Exception as problem:
        print(f"{name}: onnxruntime/openvino@precision=f32,threads=1 raised:", type(problem).__name__, str(problem)[-2000:])
        while problem and not (type(problem).__name__ == FAILURE[0] and FAILURE[1] in str(problem)):
            problem = problem.__cause__ or problem.__context__
        if not problem:
            sys.exit(print("It is another failure than the one that this script shows.") or 2)
        fault = True
print("FAULT" if fault else "NO FAULT")
sys.exit(int(fault))
