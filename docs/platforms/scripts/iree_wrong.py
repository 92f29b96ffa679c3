"""Three programs that IREE computes wrongly or does not run, with iree-turbine alone.

Run with the interpreter of `mindgap env create iree`. Seen with iree-base-compiler 3.13.0, iree-turbine 3.9.0 and
PyTorch 2.13.0. Exit status 1: at least one is still there; 0: none is.
"""

import sys

import iree.runtime
import iree.turbine.aot
import numpy as np
import torch


def run(function, *arguments):
    class Model(torch.nn.Module):
        def forward(self, *given):
            return function(*given)

    program = iree.turbine.aot.export(Model(), args=arguments).compile(save_to=None)
    config = iree.runtime.Config("local-task")
    module = iree.runtime.VmModule.copy_buffer(config.vm_instance, program.map_memory())
    found = iree.runtime.load_vm_module(module, config).main(*(each.numpy() for each in arguments))
    return np.array(found[0] if isinstance(found, tuple) else found)


def weighted_bags(table, indices, offsets, weights):
    return torch.nn.functional.embedding_bag(indices, table, offsets, mode="sum", per_sample_weights=weights)


def pooled(x):
    return torch.nn.functional.max_pool2d(x, 3, stride=2, ceil_mode=True, return_indices=True)[0]


CASES = {
    "embedding_bag leaves out per_sample_weights": (
        weighted_bags, torch.arange(8.0).reshape(4, 2), torch.tensor([0, 1, 2, 3]), torch.tensor([0, 2]),
        torch.tensor([1.0, 10.0, 100.0, 1000.0]),
    ),
    "max_pool2d with indices and ceil_mode is not compiled": (pooled, torch.arange(36.0).reshape(1, 2, 3, 6)),
    "float64 results are buffers of float32": (lambda x: x + 1, torch.zeros(2, 3, dtype=torch.float64)),
}  # fmt: skip


def main():
    wrong = 0
    for name, (function, *arguments) in CASES.items():
        expected = function(*arguments).numpy()
        try:
            actual = run(function, *arguments)
            fault = not np.allclose(actual, expected)
            print(name, "IREE:", actual.tolist(), "PyTorch:", expected.tolist())
        except Exception as error:
            fault = True
            print(name, "IREE:", type(error).__name__, str(error)[:300])
        wrong += fault
    print(f"{wrong} of {len(CASES)} are there")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
