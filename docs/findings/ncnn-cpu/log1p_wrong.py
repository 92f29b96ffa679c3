"""ncnn/cpu: `log1p` and `atanh` of small `x` lose digits: 3e-4 off at 1.01e-4, 5e-5 at 0.001

Condition: the magnitude of `x` is between 1e-4 and about 0.05 (float32).
Seen with torch 2.13.0+cpu, ncnn 1.0.20261020, pnnx 20261020.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import platform, runpy, sys, tempfile
from functools import cache
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch
import ncnn
import pnnx
PACKAGES = ('torch', 'ncnn', 'pnnx')
PROPERTIES = {'use_fp16_packed': False, 'use_fp16_storage': False, 'use_fp16_arithmetic': False, 'use_bf16_packed': False, 'use_bf16_storage': False, 'num_threads': 1}
COMPARE = "element"
class Model(torch.nn.Module):
    def forward(self, x0):
        return torch.log1p(x0)
class Atanh(torch.nn.Module):
    def forward(self, x0):
        return torch.atanh(x0)
CASES = {
    "smallest": (Model, lambda: (torch.tensor([0.001]),)),
    "ordinary size": (Model, lambda: (torch.linspace(-0.1, 0.1, 64),)),
    "atanh": (Atanh, lambda: (torch.linspace(-0.1, 0.1, 64),)),
}
def run(model, fresh):
    class Net(ncnn.Net):
        def __init__(self):
            super().__init__()
            for name, value in PROPERTIES.items():
                setattr(self.opt, name, value)
            self.load_param, self.load_model = cache(self.load_param), cache(self.load_model)
        def __exit__(self, *_):
            """Keeps the model: the script would load it again with each call."""
    assert ncnn.get_gpu_count() or not PROPERTIES.get("use_vulkan_compute"), "ncnn finds no Vulkan device"
    net = Net()
    with tempfile.TemporaryDirectory() as folder:
        # pnnx traces the model and writes a script that runs it on random numbers: these are the operands here.
        pnnx.export(model, f"{folder}/model.pt", fresh(), fp16="use_fp16_storage" not in PROPERTIES)
        script = runpy.run_path(f"{folder}/model_ncnn.py")
        net.load_param(f"{folder}/model.ncnn.param")
        net.load_model(f"{folder}/model.ncnn.bin")
    def infer(given):
        original = ncnn.Net, torch.manual_seed, torch.rand, torch.randint
        ncnn.Net, torch.manual_seed = lambda: net, lambda seed: None
        torch.rand = torch.randint = lambda *shape, dtype: next(given).to(dtype)
        try:
            return script["test_inference"]()
        finally:
            ncnn.Net, torch.manual_seed, torch.rand, torch.randint = original
    found = infer(iter(fresh()))
    return [each.clone() for each in (found if isinstance(found, tuple) else (found,))]
def off(found, right):
    """How far each element is off, relative to the element of `right`; inf where NaN, inf or integers differ."""
    f, r = found.to(torch.complex128), right.to(torch.complex128)
    apart = (f - r).abs() / r.abs()
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
        print(f"  at {at}: eager {e}  ncnn/cpu@precision=f32,threads=1 {a}  float64 {x}")
print("FAULT" if fault else "NO FAULT")
sys.exit(int(fault))
