"""onnxruntime/cpu: `x << n` and `x >> n` of uint8 give int8: 100 << 1 is -56; `(x >> 4) & 15`, as for 4-bit weights, makes an invalid model

Condition: the tensor is uint8: `x << 1`, `1 << x`, `torch.bitwise_left_shift(x, y)` of two uint8; also where the
result is converted, `(x << 1).float()`.
Seen with torch 2.13.0+cpu, onnxruntime 1.31.1, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch, onnxruntime
PACKAGES = ('torch', 'onnxruntime', 'onnx', 'onnxscript')
COMPARE = "equal"

class Model(torch.nn.Module):
    def forward(self, x):
        return x << 1

class Right(torch.nn.Module):
    def forward(self, x):
        return torch.bitwise_right_shift(x, 4)

class Float(torch.nn.Module):
    def forward(self, x):
        return (x << 1).float()

CASES = {
    "smallest": (Model, lambda: (torch.tensor([100], dtype=torch.uint8),)),
    "ordinary size": (Model, lambda: (torch.arange(128).to(torch.uint8).reshape(8, 16),)),
    "x >> 4": (Right, lambda: (torch.arange(256).to(torch.uint8).reshape(16, 16),)),
    "(x << 1).float()": (Float, lambda: (torch.arange(128).to(torch.uint8).reshape(8, 16),)),
}

def run(model, fresh):
    program = torch.onnx.export(model, fresh(), dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    feeds = {given.name: tensor.numpy() for given, tensor in zip(session.get_inputs(), fresh(), strict=True)}
    return [torch.as_tensor(array) for array in session.run(None, feeds)]

def off(found, right):
    """0 where elements are equal, else infinity: nothing here is rounded but by a cast. NaN equals NaN."""
    return torch.where((found == right) | (found.isnan() & right.isnan()), 0.0, torch.inf)

flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out]) if each.numel()]
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    eager = flat(Model().eval()(*fresh()))
    for number, (e, a) in enumerate(zip(eager, flat(run(Model().eval(), fresh)), strict=True)):
        far = off(a, e) if (a.dtype, a.shape) == (e.dtype, e.shape) else torch.full(e.shape, torch.inf)
        error, limit = far.max().item(), 16 * torch.finfo(torch.result_type(e, 1.0)).eps
        at = torch.unravel_index(far.argmax(), e.shape)
        fault |= (wrong := error > limit)
        words = f"{a.dtype}{list(a.shape)} for {e.dtype}{list(e.shape)}, error {error:.3g}, limit {limit:.3g}"
        print(f"{name}, output {number}: {words}{': wrong' * wrong}")
        print(f"  at {[*map(int, at)]}: eager {e[at]}  onnxruntime/cpu {a[at]}")
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
