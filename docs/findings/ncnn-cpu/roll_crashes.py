"""ncnn/cpu: `roll` by the size of the dimension or more ends the process, or has no output (9 of 8)

Condition: the shift, forwards or backwards, of any dimension is at least its size; beyond the size, with 4 to 8 or 12
rows, the process ends, by SIGABRT or SIGSEGV as it happens; with 2 or 3 rows, of one dimension, or by just the size,
there is no output.
Seen with torch 2.13.0+cpu, ncnn 1.0.20261020, pnnx 20261020.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import os, platform, runpy, signal, subprocess, sys, tempfile
from functools import cache
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch
import ncnn
import pnnx
PACKAGES = ('torch', 'ncnn', 'pnnx')
PROPERTIES = {'use_fp16_packed': False, 'use_fp16_storage': False, 'use_fp16_arithmetic': False, 'use_bf16_packed': False, 'use_bf16_storage': False, 'num_threads': 1}
LIMIT_S = 150
SIGNAL = ""
class Model(torch.nn.Module):
    def forward(self, x0):
        return torch.roll(x0, 9, 1)
class Back(torch.nn.Module):
    def forward(self, x0):
        return torch.roll(x0, -65, 1)
class Large(torch.nn.Module):
    def forward(self, x0):
        return torch.roll(x0, 65, 1)
CASES = {
    "smallest": (Model, lambda: (torch.arange(64.0).reshape(8, 8),)),
    "ordinary size": (Large, lambda: (torch.arange(256.0).reshape(4, 64),)),
    "back": (Back, lambda: (torch.arange(256.0).reshape(4, 64),)),
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
if sys.argv[1:]:  # one case on the platform, in a process of its own
    Model, fresh = CASES[sys.argv[1]]
    run(Model().eval(), fresh)
    sys.exit()
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    print(f"{name}: eager gives", Model().eval()(*fresh()), flush=True)
    running = subprocess.Popen([sys.executable, __file__, name], start_new_session=True)
    try:
        status = running.wait(LIMIT_S)
        ended = signal.Signals(-status).name if status < 0 else ""
        words = f"ends with {ended}" if ended else "fails in another way" if status else "runs it"
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)
        status, ended, words = running.wait(), "", f"does not end within {LIMIT_S} s"
    print(f"{name}: ncnn/cpu@precision=f32,threads=1", words)
    shows = bool(ended) and SIGNAL in ("", ended)
    if status and not shows:
        sys.exit(print("Another fault than the one that this script shows.") or 2)
    fault |= shows
print("FAULT" if fault else "NO FAULT")
sys.exit(int(fault))
