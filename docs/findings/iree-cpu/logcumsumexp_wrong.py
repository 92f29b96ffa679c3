"""iree/cpu: `logcumsumexp` is log(cumsum(exp(x))): inf from an element of 89 on, -inf before the first above -88

Condition: an element is above 88.72, or it and all before it are below -87.34 (float64: 709.78, -708.4).
Seen with torch 2.13.0+cpu, iree-base-compiler 3.13.0, iree-base-runtime 3.13.0, iree-turbine 3.9.0.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import os, platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'IREE_PY_RUNTIME_FLAGS': '--task_topology_group_count=1'})  # before PyTorch is imported
import torch, iree.runtime, iree.turbine.aot, numpy as np
PACKAGES = ('torch', 'iree-base-compiler', 'iree-base-runtime', 'iree-turbine')
PROPERTIES = {'iree-hal-target-backends': 'llvm-cpu', 'iree-input-demote-f64-to-f32': 'false'}
import torch

class Model(torch.nn.Module):
    def forward(self, x0):
        return torch.logcumsumexp(x0, 0)

class Chain(torch.nn.Module):
    """The logarithm of the probability that a chain has ended by each step."""
    def forward(self, log_probabilities):
        return torch.logcumsumexp(log_probabilities, 1)

CASES = {
    "smallest": (Model, lambda: (torch.tensor([-200.0, 0.0]),)),
    "large": (Model, lambda: (torch.tensor([100.0, 101.0]),)),
    "chain": (Chain, lambda: (torch.linspace(-300.0, 0.0, 16).repeat(4, 1),)),
}

def run(model, fresh):
    output = iree.turbine.aot.export(model, args=fresh())
    output.session.set_flags(*(f"--{name}={value}" for name, value in PROPERTIES.items()))
    program = output.compile(save_to=None, target_backends=None)
    config = iree.runtime.Config("local-task")
    module = iree.runtime.VmModule.copy_buffer(config.vm_instance, program.map_memory())
    loaded = iree.runtime.load_vm_module(module, config)
    found = loaded.main(*(a.numpy() for a in fresh()))
    return [torch.as_tensor(np.array(array)) for array in (found if isinstance(found, tuple) else (found,))]

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
        print(f"  at {[*map(int, at)]}: eager {e[at]}  iree/cpu@float64=kept,threads=1 {a[at]}  float64 {x[at]}")
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
