"""xla/eager: `roll`, `fftshift` and `ifftshift` along a dimension of size 0 end the process

Condition: the dimension that is rolled has size 0, or `dims` is not given and the tensor is empty.
Seen with torch 2.9.0, torch_xla 2.9.0.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import os, platform, signal, subprocess, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'OMP_NUM_THREADS': '1', 'MKL_NUM_THREADS': '1', 'OMP_DYNAMIC': 'FALSE', 'MKL_DYNAMIC': 'FALSE', 'NPROC': '1'})  # before PyTorch is imported
import torch
import torch_xla
PACKAGES = ('torch', 'torch_xla')

LIMIT_S = 150
SIGNAL = "SIGFPE"

class Roll(torch.nn.Module):
    def forward(self, x):
        return (torch.roll(x, 1, 0),)

class Shift(torch.nn.Module):
    def forward(self, x):
        return (torch.fft.fftshift(x),)

CASES = {
    "smallest": (Roll, lambda: (torch.empty(0),)),
    "ordinary size": (Roll, lambda: (torch.empty(0, 16),)),
    "fftshift": (Shift, lambda: (torch.empty(0, 16),)),
}

def run(model, fresh):
    device = "xla"
    found = model.to(device)(*(a.to(device) for a in fresh()))
    return [value.cpu() for value in (found if isinstance(found, (tuple, list)) else (found,))]

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
    print(f"{name}: xla/eager@threads=1", words)
    shows = bool(ended) and SIGNAL in ("", ended)
    if status and not shows:
        sys.exit(print("Another fault than the one that this script shows.") or 2)
    fault |= shows
print("FAULT" if fault else "NO FAULT")
sys.exit(int(fault))
