"""Three programs that pnnx and ncnn compute wrongly or not at all, with these two alone.

Run with the interpreter of `mindgap env create ncnn`. Seen with ncnn 1.0.20261020, pnnx 20261020 and PyTorch 2.13.0.
Exit status 1: at least one is still there; 0: none is.
"""

import runpy
import sys
import tempfile

import numpy as np
import pnnx
import torch

RAND = torch.rand


def run(function, *arguments):
    class Model(torch.nn.Module):
        def forward(self, *given):
            return function(*given)

    given = iter(arguments)
    with tempfile.TemporaryDirectory() as folder:
        # pnnx writes a script that runs the model on random numbers: it gets the arguments in their place.
        pnnx.export(Model(), f"{folder}/model.pt", arguments, fp16=False)
        torch.rand = lambda *shape, dtype: next(given)
        try:
            return runpy.run_path(f"{folder}/model_ncnn.py")["test_inference"]().numpy().copy()
        finally:
            torch.rand = RAND


def pooled(x):
    return torch.nn.functional.avg_pool1d(x, 3, stride=2, ceil_mode=True)


CASES = {
    "avg_pool1d with ceil_mode divides the last window by its full size": (
        pooled, torch.arange(1.0, 13).reshape(1, 2, 6),
    ),
    "a program whose result is its input gives an empty matrix": (lambda x: x.contiguous(), torch.ones(2, 3)),
    "a sum of all elements has the shape [1]": (lambda x: x.sum(), torch.ones(2, 3)),
}  # fmt: skip


def main():
    wrong = 0
    for name, (function, *arguments) in CASES.items():
        expected = function(*arguments).numpy()
        try:
            actual = run(function, *arguments)
            fault = actual.shape != expected.shape or not np.allclose(actual, expected)
            print(name, "ncnn:", actual.tolist(), "PyTorch:", expected.tolist())
        except Exception as error:
            fault = True
            print(name, "ncnn:", type(error).__name__, str(error)[:300])
        wrong += fault
    print(f"{wrong} of {len(CASES)} are there")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
