"""Lists the private and gradient operators that public forward functions of PyTorch reach.

    python benchmarks/wild/reached.py > benchmarks/wild/reached.txt        # --every 50: a short run, of a part

Private: the name begins with an underscore. Gradient: the name holds `_backward`. Every function and module that
PyTorch's test suite has samples for is run under `torch.no_grad`, and every function of `torch.nn.functional` and every
module, in training and in evaluation, is also exported with `torch.export` and decomposed as the ONNX exporter starts
from. `classify.py` reads the list: a finding at another private or gradient operator is debatable, since its users
cannot meet it. Imports no mindgap.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db
from torch.utils._python_dispatch import TorchDispatchMode

RUN, EXPORTED = 12, 2


class Calls(TorchDispatchMode):
    """Records the packets of all operators that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.packets: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[override]
        self.packets.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


class Called(torch.nn.Module):
    """A function as a module, with every argument but the tensors fixed."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__()
        self.function, self.args, self.kwargs = function, args, kwargs

    def forward(self, *tensors: torch.Tensor) -> Any:
        given = iter(tensors)
        args = [next(given) if isinstance(arg, torch.Tensor) else arg for arg in self.args]
        return self.function(*args, **{
            name: next(given) if isinstance(arg, torch.Tensor) else arg for name, arg in self.kwargs.items()
        })  # fmt: skip


def functions(every: int) -> Iterator[tuple[str, int, Callable[..., Any], tuple[Any, ...], dict[str, Any]]]:
    """Name, number of the sample, function, arguments. Of one function in `every`."""
    for info in op_db[::every]:
        if info.name.startswith(("_", "jiterator", "ops.aten")) or "_backward" in info.name:
            continue
        for dtype in (torch.float32, torch.complex64, torch.int64):
            if info.supports_dtype(dtype, "cpu"):
                for number, sample in enumerate(itertools.islice(info.sample_inputs("cpu", dtype), RUN)):
                    yield info.name, number, info.op, (sample.input, *sample.args), dict(sample.kwargs)


def modules(every: int) -> Iterator[tuple[str, int, Callable[..., Any], tuple[Any, ...], dict[str, Any]]]:
    """The same of modules."""
    for info, train in itertools.product(module_db[::every], (False, True)):
        samples = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=False, training=train)
        for number, sample in enumerate(itertools.islice(samples, RUN)):
            made, given = sample.constructor_input, sample.forward_input
            module = info.module_cls(*made.args, **made.kwargs).train(train)
            yield f"nn.{info.name}", number, module, given.args, given.kwargs


def unsampled() -> Iterator[tuple[str, int, Callable[..., Any], tuple[Any, ...], dict[str, Any]]]:
    """Public functions in a mode that PyTorch's samples leave out."""
    for number, mode in enumerate(("bilinear", "bicubic")):
        kwargs = {"size": (4, 3), "mode": mode, "antialias": True}
        yield "nn.functional.interpolate", number, torch.nn.functional.interpolate, (torch.rand(1, 2, 9, 9),), kwargs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="one function or module in so many")
    every: int = parser.parse_args().every
    warnings.filterwarnings("ignore")
    reached: dict[str, set[str]] = {}
    ran = exported = 0
    for name, number, function, args, kwargs in itertools.chain(functions(every), modules(every), unsampled()):
        calls = Calls()
        try:
            with torch.no_grad(), calls:
                function(*args, **kwargs)
            ran += 1
        except Exception as error:
            print(f"not run: {name}#{number}: {str(error)[:100]}", file=sys.stderr)
        if number < EXPORTED and name.startswith("nn."):
            try:
                module = function if isinstance(function, torch.nn.Module) else Called(function, args, kwargs)
                tensors = [arg for arg in (*args, *kwargs.values()) if isinstance(arg, torch.Tensor)]
                wanted = (args, kwargs) if isinstance(function, torch.nn.Module) else (tuple(tensors), {})
                program = torch.export.export(module, *wanted).run_decompositions()
                calls.packets |= {
                    node.target.overloadpacket.__name__
                    for node in program.graph.nodes
                    if node.op == "call_function" and hasattr(node.target, "overloadpacket")
                }
                exported += 1
            except Exception as error:
                print(f"not exported: {name}#{number}: {str(error)[:100]}", file=sys.stderr)
        for packet in calls.packets:
            if packet.startswith("_") or "_backward" in packet:
                reached.setdefault(packet, set()).add(name)
    print(f"# torch {torch.__version__}: {ran} calls, {exported} exported. Packet, and one function that reaches it.")
    for packet, names in sorted(reached.items()):
        print(packet, min(names))
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
