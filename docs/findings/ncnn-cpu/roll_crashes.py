"""ncnn/cpu: `roll` by the size of the dimension or more ends the process, or has no output (9 of 8)

Condition: the shift, forwards or backwards, of any dimension is at least its size; beyond the size, with 4 to 8 or 12
rows, the process ends, by SIGABRT or SIGSEGV as it happens; with 2 or 3 rows, of one dimension, or by just the size,
there is no output.
Seen with torch 2.13.0+cpu, ncnn 1.0.20261020, pnnx 20261020.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import pathlib, platform, re, signal, subprocess, sys, tempfile
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch, ncnn, pnnx
PACKAGES = ('torch', 'ncnn', 'pnnx')
PROPERTIES = {'use_fp16_packed': False, 'use_fp16_storage': False, 'use_fp16_arithmetic': False, 'use_bf16_packed': False, 'use_bf16_storage': False, 'num_threads': 1}
LIMIT_S = 150
SIGNAL = ""

class Model(torch.nn.Module):
    def forward(self, x0):
        return torch.roll(x0, 9, 1)

class Large(torch.nn.Module):
    def forward(self, x0):
        return torch.roll(x0, 65, 1)

CASES = {
    "smallest": (Model, lambda: (torch.arange(64.0).reshape(8, 8),)),
    "ordinary size": (Large, lambda: (torch.arange(256.0).reshape(4, 64),)),
}

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

if sys.argv[1:]:  # one case on the platform, in a process of its own
    Model, fresh = CASES[sys.argv[1]]
    run(Model().eval(), fresh)
    sys.exit()
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    print(f"{name}: eager gives", Model().eval()(*fresh()), flush=True)
    status = subprocess.run([sys.executable, __file__, name], timeout=LIMIT_S).returncode
    ended = signal.Signals(-status).name if status < 0 else ""
    print(f"{name}: ncnn/cpu@precision=f32,threads=1", f"ends with {ended}" if ended else "fails in another way" if status else "runs it")
    if status and not (ended and SIGNAL in ("", ended)):
        sys.exit(print("Another fault than the one that this script shows.") or 2)
    fault |= bool(status)
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
