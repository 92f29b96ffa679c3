"""cpu/inductor: a reduction over a `channels_last` operand whose sizes are no multiple of the vector's width writes outside its buffer

Condition: a sum is vectorised over another dimension than the one it reduces, in tiles of two dimensions, and the
size along that dimension is no multiple of the vector's width (66 with 16 lanes): a product of padded, permuted maps
of `channels_last`.
Seen with torch 2.13.0+cpu.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import os, platform, signal, subprocess, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'TORCHINDUCTOR_COMPILE_THREADS': '1'})  # before PyTorch is imported
import torch
PACKAGES = ('torch',)
LIMIT_S = 150

class Attention(torch.nn.Module):
    def forward(self, x):
        v = x * 0.5 * (torch.erf(x * 0.7071067811865476) + 1)
        keys = torch.nn.functional.pad(v.permute(3, 2, 1, 0), (0, 0, 0, 58), value=0.5)
        return torch.nn.functional.pad(v, (0, 0, 0, 0, 0, 58), value=0.5) @ keys

CASES = {
    "ordinary size": (Attention, lambda: (torch.linspace(-1, 1, 8 * 66 * 66).reshape(1, 8, 66, 66).contiguous(memory_format=torch.channels_last),)),
}
SIGNAL = ""

def run(model, fresh):
    compiled = torch.compile(model, fullgraph=True, dynamic=False)
    return compiled(*fresh())

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
    print(f"{name}: cpu/inductor", words)
    shows = bool(ended) and SIGNAL in ("", ended)
    if status and not shows:
        sys.exit(print("Another fault than the one that this script shows.") or 2)
    fault |= shows
print("FAULT" if fault else "NO FAULT")
sys.exit(int(fault))
