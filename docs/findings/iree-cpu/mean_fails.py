"""iree/cpu: `x.mean(dim, dtype=torch.float32)` of integers and bools does not compile: "failed to legalize operation 'torch.constant.int'"

Condition: the operand is of int64, int32, int8, uint8 or bool, and `dim` and `dtype` are given (float64 too).
Seen with torch 2.13.0+cpu, iree-base-compiler 3.13.0, iree-base-runtime 3.13.0, iree-turbine 3.9.0.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import os, platform, sys, tempfile
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'IREE_PY_RUNTIME_FLAGS': '--task_topology_group_count=1'})  # before PyTorch is imported
import torch, iree.runtime, iree.turbine.aot, numpy as np
PACKAGES = ('torch', 'iree-base-compiler', 'iree-base-runtime', 'iree-turbine')
PROPERTIES = {'iree-hal-target-backends': 'llvm-cpu', 'iree-input-demote-f64-to-f32': 'false'}
import torch

class Model(torch.nn.Module):
    def forward(self, x0):
        return x0.mean(1, dtype=torch.float32)

class Brightness(torch.nn.Module):
    """The mean of each channel of an image."""
    def forward(self, image):
        return image.mean((1, 2), dtype=torch.float32)

CASES = {
    "smallest": (Model, lambda: (torch.tensor([[0, 1]]),)),
    "brightness": (Brightness, lambda: (torch.arange(192, dtype=torch.uint8).reshape(3, 8, 8),)),
}
FAILURE = ("RuntimeError", "failed to legalize operation 'torch.constant.int'")

def run(model, fresh):
    output = iree.turbine.aot.export(model, args=fresh())
    output.session.set_flags(*(f"--{name}={value}" for name, value in PROPERTIES.items()))
    program = output.compile(save_to=None, target_backends=None)
    config = iree.runtime.Config("local-task")
    module = iree.runtime.VmModule.copy_buffer(config.vm_instance, program.map_memory())
    loaded = iree.runtime.load_vm_module(module, config)
    found = loaded.main(*(a.numpy() for a in fresh()))
    return [torch.as_tensor(np.array(array)) for array in (found if isinstance(found, tuple) else (found,))]

flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out])]
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
log = tempfile.TemporaryFile()
os.dup2(log.fileno(), 2)  # there it reports
for name, (Model, fresh) in CASES.items():
    print(f"{name}: eager gives", *(f"{value.dtype} {list(value.shape)}" for value in flat(Model().eval()(*fresh()))))
    log.seek(0), log.truncate()
    try:
        run(Model().eval(), fresh)
        print(f"{name}: iree/cpu@float64=kept,threads=1 runs it")
    except Exception as problem:
        printed = log.seek(0) or log.read().decode(errors="replace")
        print(f"{name}: iree/cpu@float64=kept,threads=1 raised:", type(problem).__name__, str(problem)[-2000:], printed[-2000:])
        while problem and not (type(problem).__name__ == FAILURE[0] and FAILURE[1] in str(problem) + printed):
            problem = problem.__cause__ or problem.__context__
        if not problem:
            sys.exit(print("It is another failure than the one that this script shows.") or 2)
        fault = True
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
