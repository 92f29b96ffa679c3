"""openvino/cpu: `rfft` gives a dimension too many, `irfft` and `irfft2` lose one of the signal

Condition: `rfft` (1-d and 2-d, and `dim=1`), `irfft`, `irfft2`, `hfft`, of any size; an ONNX DFT with onesided=1.
Seen with torch 2.13.0+cpu, openvino 2026.4.1, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import platform, sys, tempfile
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch, openvino, numpy as np
PACKAGES = ('torch', 'openvino', 'onnx', 'onnxscript')
PROPERTIES = {'INFERENCE_PRECISION_HINT': 'f32'}

class Model(torch.nn.Module):
    def forward(self, x0):
        return torch.fft.rfft(x0)

class Inverse(torch.nn.Module):
    def forward(self, x0):
        return torch.fft.irfft(x0)

CASES = {
    "smallest": (Model, lambda: (torch.ones(1, 2),)),
    "ordinary size": (Model, lambda: (torch.linspace(-3, 3, 64).reshape(4, 16).sin(),)),
    "inverse": (Inverse, lambda: (torch.linspace(-3, 3, 36).reshape(4, 9).sin().to(torch.complex64),)),
}

class Boundary(torch.nn.Module):
    """Takes and gives bfloat16 and float8 as float32, and complex numbers as pairs: numpy lacks them. It is exact."""

    def __init__(self, model, given):
        super().__init__()
        self.model, self.dtypes = model, [value.dtype for value in given]

    def forward(self, *given):
        results = self.model(*map(convert, given, self.dtypes))
        return tuple(map(plain, results if isinstance(results, tuple) else (results,)))

small = lambda dtype: dtype.is_floating_point and dtype.itemsize < 4 and dtype != torch.float16
plain = lambda x: torch.view_as_real(x.resolve_conj()) if x.is_complex() else x.float() if small(x.dtype) else x
convert = lambda x, dtype: torch.view_as_complex(x) if dtype.is_complex else x.to(dtype) if small(dtype) else x

def run(model, fresh):
    with tempfile.TemporaryDirectory() as folder:
        torch.onnx.export(model, fresh(), dynamo=True, verbose=False).save(f"{folder}/model.onnx")
        compiled = openvino.compile_model(f"{folder}/model.onnx", "CPU", PROPERTIES)
    return [torch.as_tensor(np.array(array)) for array in compiled([a.numpy() for a in fresh()]).values()]

flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out])]
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    eager = flat(Model().eval()(*fresh()))
    for number, (e, a) in enumerate(zip(eager, flat([*map(convert, run(Boundary(Model(), fresh()).eval(), lambda: tuple(map(plain, fresh()))), [each.dtype for each in eager])]), strict=True)):
        fault |= (wrong := (a.dtype, a.shape) != (e.dtype, e.shape))
        words = f"{a.dtype}{list(a.shape)} for {e.dtype}{list(e.shape)}{': wrong' * wrong}"
        print(f"{name}, output {number}: {words}")
        print(f"  eager {e.flatten()[:4].tolist()}  openvino/cpu@frontend=onnx,precision=f32 {a.flatten()[:4].tolist()}")
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
