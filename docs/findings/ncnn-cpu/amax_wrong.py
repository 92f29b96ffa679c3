"""ncnn/cpu: `amax()` and `amin()` of all elements return the tensor itself: `x - x.amax()` is 0

Condition: `amax` or `amin` without `dim`, of two dimensions or more; or `mean` with `dim=()`, which PyTorch takes for
all dimensions too.

Right for: `amax(x, (0, 1))` and one dimension; `max()`, `mean()`, `sum()`, `norm()` and `logsumexp(x, (0, 1))` of all
elements; a tensor of one dimension.

pnnx writes a Reduction whose parameter 1 (`reduce_all`) is 0 and whose list of axes is the `dim` of the call, which
is empty for all dimensions. ncnn then reduces over no axis. For `sum()` and `mean()` without `dim` there are patterns
of their own, which set `reduce_all`.

Seen with torch 2.13.0+cpu, ncnn 1.0.20261020, pnnx 20261020.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

from functools import cache
import platform
import runpy
import sys
import tempfile
import traceback
from importlib.metadata import version

try:
    import torch
    import ncnn
    import pnnx
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)

PACKAGES = ('torch', 'ncnn', 'pnnx')
PROPERTIES = {'use_fp16_packed': False, 'use_fp16_storage': False, 'use_fp16_arithmetic': False, 'use_bf16_packed': False, 'use_bf16_storage': False, 'num_threads': 1}


COMPARE = "largest"


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.amax(x, keepdim=True)


class Large(torch.nn.Module):
    def forward(self, x):
        return x - x.amax()


class Amin(torch.nn.Module):
    def forward(self, x):
        return x - torch.amin(x)


class Mean(torch.nn.Module):
    def forward(self, x):
        return x - torch.mean(x, ())


CASES = {
    "smallest": (Model, lambda: (torch.tensor([[1.0, 2.0], [3.0, 4.0]]),)),
    "ordinary size": (Large, lambda: (torch.linspace(-4, 4, 64).reshape(4, 16),)),
    "amin": (Amin, lambda: (torch.linspace(-4, 4, 64).reshape(4, 16),)),
    "mean, no dimension named": (Mean, lambda: (torch.linspace(-4, 4, 64).reshape(4, 16),)),
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


def error(found, exact):
    """The largest difference, relative to the largest magnitude of `exact`.

    Infinity where shapes, NaN or infinities differ, and where results that are no floats differ at all.
    """
    if found.shape != exact.shape:
        return float("inf")
    if not (exact.is_floating_point() or exact.is_complex()):
        return 0.0 if torch.equal(found, exact) else float("inf")
    if exact.is_complex():
        found, exact = torch.view_as_real(found.resolve_conj()), torch.view_as_real(exact.resolve_conj())
    found, exact = found.double(), exact.double()
    finite = exact.isfinite()
    same = torch.equal(found.isnan(), exact.isnan()) and torch.equal(found.isfinite(), finite)
    if not same or not torch.equal(found[exact.isinf()], exact[exact.isinf()]):
        return float("inf")
    if not finite.any():
        return 0.0
    worst, size = (found - exact)[finite].abs().max(), exact[finite].abs().max()
    return float(worst / size) if size else float(worst)


def versions():
    """The versions of the packages, the processor and its instruction set."""
    found = [f"{name} {version(name)}" for name in PACKAGES]
    return ", ".join([*found, platform.machine(), torch.backends.cpu.get_cpu_capability()])


def as_tuple(results):
    return tuple(value.detach() for value in (results if isinstance(results, (tuple, list)) else (results,)))


def furthest(found, right):
    """The place of the element that is furthest off; NaN where the other is none comes first."""
    apart = (found.to(torch.complex128) - right.to(torch.complex128)).abs().nan_to_num(nan=0.0)
    apart[(found != found) != (right != right)] = float("inf")
    return tuple(int(i) for i in torch.unravel_index(apart.flatten().argmax(), apart.shape))


def shows(name, Model, fresh):
    """Whether one case shows the fault."""
    expecteds = as_tuple(Model().eval()(*fresh()))
    widened = [
        x.to(torch.promote_types(x.dtype, torch.float64)) if x.is_floating_point() or x.is_complex() else x
        for x in fresh()
    ]
    exacts = as_tuple(Model().double().eval()(*widened))  # in float64
    founds = as_tuple(run(Model().eval(), fresh))
    fault = False
    for number, (found, expected, exact) in enumerate(zip(founds, expecteds, exacts, strict=True)):
        eps = torch.finfo(expected.dtype).eps if expected.is_floating_point() or expected.is_complex() else 0.0
        off, limit = error(found, exact), 16 * max(error(expected, exact), eps)
        wrong = found.dtype != expected.dtype or off > limit
        fault |= wrong
        kind = f"{str(expected.dtype).removeprefix('torch.')}{list(expected.shape)}"
        print(f"{name}, output {number}: {kind}, error {off:.3g}, limit {limit:.3g}{': wrong' if wrong else ''}")
        if found.dtype != expected.dtype or found.shape != expected.shape:
            print("  eager:", expected.dtype, list(expected.shape), " ncnn/cpu@precision=f32,threads=1:", found.dtype, list(found.shape))
        elif found.numel():
            place = furthest(found, exact)
            values = " ".join(f"{side} {value[place].item():.{17 if value.itemsize > 4 else 9}g} " for side, value in (
                ("eager", expected), ("ncnn/cpu@precision=f32,threads=1", found), ("float64", exact)))
            print(f"  at {list(place)}: {values}")
    return fault


def main():
    torch.set_printoptions(precision=17)
    print(versions())
    found = False
    for name, (Model, fresh) in CASES.items():
        try:
            found |= shows(name, Model, fresh)
        except Exception:
            traceback.print_exc()
            print(f"{name}: it fails, which is another fault than the one that this script shows.")
            return 2
    print("FAULT" if found else "NO FAULT")
    return int(found)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
