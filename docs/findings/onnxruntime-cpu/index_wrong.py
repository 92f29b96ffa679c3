"""onnxruntime/cpu: `x[mask, index]` takes other elements: an index of integers beside a mask is read as a mask or dropped

Condition: a tensor of bools and a tensor of integers index one tensor, in any order (beside a mask or an index of two
dimensions the index is dropped, and the result has another shape; the index 0 alone fails when it runs).
Seen with torch 2.13.0+cpu, onnxruntime 1.31.1, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch, onnxruntime
PACKAGES = ('torch', 'onnxruntime', 'onnx', 'onnxscript')
import torch

class Column(torch.nn.Module):
    def forward(self, x0, mask):
        return x0[mask, torch.tensor([2])]

class Row(torch.nn.Module):
    def forward(self, x0, mask):
        return x0[torch.tensor([5]), mask]

CASES = {
    "column": (Column, lambda: (torch.arange(12.0).reshape(3, 4), torch.tensor([True, False, True]))),
    "row": (Row, lambda: (torch.arange(128.0).reshape(8, 16), torch.arange(16) % 3 == 0)),
}

def run(model, fresh):
    program = torch.onnx.export(model, fresh(), dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    feeds = {given.name: tensor.numpy() for given, tensor in zip(session.get_inputs(), fresh(), strict=True)}
    return [torch.as_tensor(array) for array in session.run(None, feeds)]

def off(found, right):
    """How far each element is off, relative to the largest of `right`; inf where NaN, inf or integers differ."""
    f, r, real = found.to(torch.complex128), right.to(torch.complex128), right.is_floating_point() or right.is_complex()
    far = ((f - r).abs() / (max(r[r.isfinite()].abs().tolist(), default=0) or 1) / real).nan_to_num(torch.inf, torch.inf)
    return torch.where((found == right) | (found.isnan() & right.isnan()), 0.0, far)

flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out]) if each.numel()]
wide = lambda x: x.to(torch.promote_types(x.dtype, torch.float64)) if x.is_floating_point() or x.is_complex() else x
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    eager, exact = flat(Model().eval()(*fresh())), flat(Model().double().eval()(*map(wide, fresh())))
    for number, (e, a, x) in enumerate(zip(eager, flat(run(Model().eval(), fresh)), exact, strict=True)):
        far = off(a, x) if (a.dtype, a.shape) == (e.dtype, e.shape) else torch.full(e.shape, torch.inf)
        error, limit = far.max().item(), 16 * max(off(e, x).max().item(), torch.finfo(torch.result_type(e, 1.0)).eps)
        at = torch.unravel_index(far.argmax(), e.shape)
        fault |= (wrong := error > limit)
        words = f"{a.dtype}{list(a.shape)} for {e.dtype}{list(e.shape)}, error {error:.3g}, limit {limit:.3g}"
        print(f"{name}, output {number}: {words}{': wrong' * wrong}")
        print(f"  at {[*map(int, at)]}: eager {e[at]}  onnxruntime/cpu {a[at]}  float64 {x[at]}")
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
