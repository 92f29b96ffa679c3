"""onnxruntime/cpu: a Python float beside a float64 tensor is exported as float32: `x / 0.1` is off by 1.5e-8

Condition: an operator of a float64 tensor and a Python float that float32 does not hold: `+`, `-`, `*`, `/`, `%`,
`torch.where`, `masked_fill`, `clamp`, `fmod`, `full_like`, `0.1 / x`, `0.1 ** x`, `torch.full` (each was run); `x >
0.1`, which gives another boolean; `rad2deg` and `deg2rad` too.
Seen with torch 2.13.0+cpu, onnxruntime 1.31.1, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch
import onnxruntime
PACKAGES = ('torch', 'onnxruntime', 'onnx', 'onnxscript')
class Model(torch.nn.Module):
    def forward(self, x0):
        v1 = torch.div(x0, 0.1)
        return (v1,)
CASES = {
    "smallest": (Model, lambda: (
        torch.tensor(1.0, dtype=torch.float64),
    )),
    "natural": (Model, lambda: (
        torch.tensor(
    [[0.5148804653299754, -0.9217703561590023, 0.3106419163479137, 0.050134123217480786, 0.771565686205087,
      -0.8950721335775147, -0.6693394065254696, -0.28557629334458867],
     [0.8693684335547798, -0.49784289191945774, -0.9010959001033856, -0.756009597955424, 0.44880376705405256,
      0.40005580896568116, 0.8308486686849323, -0.5429199178289155],
     [0.8753181450560821, -0.8852763863303419, -0.5447820360386484, 0.21856622484458144, -0.47378618692971086,
      0.21240424336035213, 0.37361802269970923, -0.6734029894434159],
     [0.4620960129293359, -0.25640054246377186, 0.14318274294755096, 0.41704115119975516, 0.9691133732164896,
      -0.639629662396306, -0.7876154745364583, -0.08171294355347136]],
    dtype=torch.float64,
),
    )),
}
def run(model, fresh):
    program = torch.onnx.export(model, fresh(), dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    feeds = {given.name: tensor.numpy() for given, tensor in zip(session.get_inputs(), fresh(), strict=True)}
    return [torch.as_tensor(array) for array in session.run(None, feeds)]
def off(found, right):
    """How far each element is off, relative to the largest of `right`; inf where NaN, inf or integers differ."""
    f, r = found.to(torch.complex128), right.to(torch.complex128)
    apart = (f - r).abs() / (max(r[r.isfinite()].abs().tolist(), default=0) or 1)
    apart = apart if right.is_floating_point() or right.is_complex() else apart + torch.inf
    return torch.where((found == right) | (found.isnan() & right.isnan()), 0.0, apart.nan_to_num(torch.inf, torch.inf))
flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out]) if each.numel()]
wide = lambda x: x.to(torch.promote_types(x.dtype, torch.float64)) if x.is_floating_point() or x.is_complex() else x
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    eager = flat(Model().eval()(*fresh()))
    exact = flat(Model().double().eval()(*map(wide, fresh())))
    for number, (e, a, x) in enumerate(zip(eager, flat(run(Model().eval(), fresh)), exact, strict=True)):
        far = off(a, x) if (a.dtype, a.shape) == (e.dtype, e.shape) else torch.full(e.shape, torch.inf)
        place, limit = far.argmax(), 16 * max([*off(e, x).flatten().tolist(), torch.finfo(torch.result_type(e, 1.0)).eps])
        error, at = far.flatten()[place].item(), [*map(int, torch.unravel_index(place, e.shape))]
        fault |= (wrong := error > limit)
        words = f"{a.dtype}{list(a.shape)} for {e.dtype}{list(e.shape)}, error {error:.3g}, limit {limit:.3g}"
        print(f"{name}, output {number}: {words}{': wrong' * wrong}")
        e, a, x = (value.flatten()[place].item() for value in (e, a, x))
        print(f"  at {at}: eager {e}  onnxruntime/cpu {a}  float64 {x}")
print("FAULT" if fault else "NO FAULT")
sys.exit(int(fault))
