"""iree/cpu: `conv2d` without a batch dimension ends the process (SIGSEGV)

Condition: the input has three dimensions (channels, height, width), with any dilation and bias.
Seen with torch 2.13.0+cpu, iree-base-compiler 3.13.0, iree-base-runtime 3.13.0, iree-turbine 3.9.0.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import os, platform, signal, subprocess, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'IREE_PY_RUNTIME_FLAGS': '--task_topology_group_count=1'})  # before PyTorch is imported
import torch, iree.runtime, iree.turbine.aot, numpy as np
PACKAGES = ('torch', 'iree-base-compiler', 'iree-base-runtime', 'iree-turbine')
PROPERTIES = {'iree-hal-target-backends': 'llvm-cpu', 'iree-input-demote-f64-to-f32': 'false'}
LIMIT_S = 150
SIGNAL = "SIGSEGV"

class Model(torch.nn.Module):
    def forward(self, x0, x1):
        return torch.nn.functional.conv2d(x0, x1)

CASES = {
    "smallest": (Model, lambda: (torch.zeros(1, 3, 3), torch.zeros(1, 1, 1, 2))),
    "ordinary size": (Model, lambda: (torch.zeros(3, 16, 16), torch.zeros(4, 3, 3, 3))),
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
    print(f"{name}: iree/cpu@float64=kept,threads=1", f"ends with {ended}" if ended else "fails in another way" if status else "runs it")
    if status and not (ended and SIGNAL in ("", ended)):
        sys.exit(print("Another fault than the one that this script shows.") or 2)
    fault |= bool(status)
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
