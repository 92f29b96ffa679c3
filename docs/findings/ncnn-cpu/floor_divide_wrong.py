"""ncnn/cpu: `x // y`, `torch.fmod` and `floor(x / y)` of exact multiples are off by one: 41 // 41 is 0, the rest of 41 by 41 is 41

Condition: the quotient is whole and the divisor one of some numbers, such as 41, 47, 55, 61 and 82 (45 of those from
1 to 256), as a tensor or a number; a tensor of two elements or more (of 3, 5 and 17 all but the last are wrong).
Seen with torch 2.13.0+cpu, ncnn 1.0.20261020, pnnx 20261020.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import pathlib, platform, re, sys, tempfile
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch, ncnn, pnnx
PACKAGES = ('torch', 'ncnn', 'pnnx')
PROPERTIES = {'use_fp16_packed': False, 'use_fp16_storage': False, 'use_fp16_arithmetic': False, 'use_bf16_packed': False, 'use_bf16_storage': False, 'num_threads': 1}
import torch

class Model(torch.nn.Module):
    def forward(self, x0, x1):
        return torch.floor_divide(x0, x1), torch.fmod(x0, x1)

CASES = {"smallest": (Model, lambda: (torch.full((4,), 41.0), torch.full((4,), 41.0))),
         "ordinary size": (Model, lambda: (torch.arange(32.0, 64.0), torch.arange(32.0, 64.0)))}
EXACT = False

def run(model, fresh):
    net = ncnn.Net()
    for name, value in PROPERTIES.items():
        setattr(net.opt, name, value)
    with tempfile.TemporaryDirectory() as folder:
        pnnx.export(model, f"{folder}/model.pt", fresh(), fp16="use_fp16_storage" not in PROPERTIES)
        net.load_param(f"{folder}/model.ncnn.param"), net.load_model(f"{folder}/model.ncnn.bin")
        script = pathlib.Path(f"{folder}/model_ncnn.py").read_text()
    # pnnx writes a script that loads the model and runs it on random numbers: here are `net` and the operands.
    script = re.sub(r"torch\.rand\w*\(.*(dtype=.*)\)", r"next(given).to(\1)", re.sub(r"net\.load.*", "", script))
    script = script.replace("with ncnn.Net() as net", "if True").replace("inference()", "inference(given)")
    exec(script, names := {"net": net, "__name__": ""})
    found = names["test_inference"](iter(fresh()))
    return [each.clone() for each in (found if isinstance(found, tuple) else (found,))]

def off(found, right):
    """How far each element is off, relative to the largest of `right`; inf where NaN, inf or integers differ."""
    f, r, real = found.to(torch.complex128), right.to(torch.complex128), right.is_floating_point() or right.is_complex()
    far = ((f - r).abs() / (max(r[r.isfinite()].abs().tolist(), default=0) or 1) / real).nan_to_num(torch.inf, torch.inf)
    return torch.where((found == right) | (found.isnan() & right.isnan()), 0.0, far)

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
        print(f"  at {[*map(int, at)]}: eager {e[at]}  ncnn/cpu@precision=f32,threads=1 {a[at]}")
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
