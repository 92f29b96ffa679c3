"""Searches Inductor on the CPU for results that differ from eager PyTorch: operator samples in every dtype.

    python benchmarks/inductor_sweep.py [--decomposed] [--op PATTERN] [--dtype float32,int8,…] [--samples 2] [--seed 1]

The samples of an operator, of all dtypes, are the outputs of one graph, so that a few kernels compute them all; a graph
that fails is halved until one sample is left. Each operator has a process of its own, since compiled code may end it.
The last sample of float32 has NaN, infinities and -0 among its elements. `--decomposed` runs Inductor's decompositions
in eager mode instead, without compiling: all operators in minutes. For each sample that differs or fails, a line; last,
what was swept. What differs is a lead and not a fault: higher precision, undefined results and random draws differ too.
"""

from __future__ import annotations

import argparse
import fnmatch
import math
import os
import random
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"

import torch
from torch._inductor.decomposition import select_decomp_table
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

DTYPES: Final = ("int8", "uint8", "int16", "int32", "int64", "bool", "bfloat16", "float16", "float32", "float64",
                 "complex64")  # fmt: skip
SPECIAL: Final = (math.inf, -math.inf, math.nan, -0.0)
#: Operators whose results are drawn, not initialised, or no plain tensors.
LEFT_OUT: Final = ("*empty*", "*rand*", "*dropout*", "bernoulli", "multinomial", "normal*", "uniform", "cauchy",
                   "exponential", "geometric", "log_normal", "*rrelu", "*fractional*", "*_lowrank", "*sparse*",
                   "*nested*", "*jiterator*")  # fmt: skip
#: Beyond it two results differ; by dtype, relative and absolute.
LIMITS: Final = {torch.float64: 1e-6, torch.float32: 1e-3, torch.float16: 3e-2, torch.bfloat16: 2e-1}


@dataclass(frozen=True)
class Trial:
    """One sample: its dtype, its number, and what eager PyTorch gives."""

    dtype: str
    number: int
    sample: Any
    expected: list[torch.Tensor]

    @property
    def words(self) -> str:
        return f"{self.dtype} sample {self.number}, {tuple(getattr(self.sample.input, 'shape', ()))}"


class Decomposed(TorchDispatchMode):
    """Runs each operator by Inductor's decomposition where it has one."""

    table: Final = select_decomp_table()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in self.table:
            with self:
                found = self.table[func](*args, **kwargs)
            if found is not NotImplemented:
                return found
        return func(*args, **kwargs)


def fresh(sample: Any) -> Any:
    return sample.transform(lambda each: each.detach().clone() if isinstance(each, torch.Tensor) else each)


def tensors(value: Any) -> list[torch.Tensor]:
    return [each.detach() for each in pytree.tree_leaves(value) if isinstance(each, torch.Tensor)]


def with_special(sample: Any, draw: random.Random) -> Any:
    """The sample with infinities, NaN and -0 at places of its float tensors."""

    def changed(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not value.is_floating_point() or value.numel() < len(SPECIAL):
            return value
        value = value.detach().clone().contiguous()
        for each in SPECIAL:
            value.view(-1)[draw.randrange(value.numel())] = each
        return value

    return sample.transform(changed)


def trials(op: Any, dtypes: Sequence[str], most: int, seed: int) -> Iterator[Trial]:
    """Samples that eager PyTorch runs."""
    for name in dtypes:
        dtype, draw = getattr(torch, name), random.Random(seed)
        if dtype not in op.dtypes:
            continue
        samples = list(op.sample_inputs("cpu", dtype, requires_grad=False))[:60]
        draw.shuffle(samples)
        for number, sample in enumerate(samples[:most]):
            if dtype is torch.float32 and number == most - 1:
                sample = with_special(sample, draw)
            torch.manual_seed(0)
            try:
                expected = tensors(called(op, fresh(sample)))
            except (RuntimeError, ValueError, TypeError, IndexError):
                continue  # a sample that eager PyTorch refuses
            if all(each.layout is torch.strided for each in expected):
                yield Trial(name, number, sample, expected)


def called(op: Any, sample: Any) -> Any:
    return op.op(sample.input, *sample.args, **sample.kwargs)


def apart(found: torch.Tensor, right: torch.Tensor) -> str:
    """How two results differ; empty where they do not."""
    if (found.dtype, found.shape) != (right.dtype, right.shape):
        return f"{found.dtype}{list(found.shape)} for {right.dtype}{list(right.shape)}"
    if found.is_complex():
        found, right = torch.view_as_real(found.resolve_conj()), torch.view_as_real(right.resolve_conj())
    exact, limit = not found.is_floating_point(), LIMITS.get(found.dtype, 0.3)
    a, b = found.double().flatten(), right.double().flatten()
    same = (a == b) | (a.isnan() & b.isnan())
    if not exact:
        same |= a.isfinite() & b.isfinite() & ((a - b).abs() <= limit * (0.1 + b.abs()))
    if bool(same.all()):
        return ""
    place = int((~same).nonzero()[0, 0])
    return f"{int((~same).sum())} of {a.numel()} elements, {a[place].item()} for {b[place].item()}"


def results(op: Any, group: Sequence[Trial], decomposed: bool) -> list[Any]:
    """What the platform gives for each trial."""
    samples = [fresh(each.sample) for each in group]
    torch.manual_seed(0)
    if decomposed:
        with Decomposed():
            return [called(op, sample) for sample in samples]
    torch._dynamo.reset()
    inputs = [(sample.input, sample.args, sample.kwargs) for sample in samples]
    compiled = torch.compile(lambda all: [op.op(x, *args, **kwargs) for x, args, kwargs in all], dynamic=False)
    return compiled(inputs)


def search(name: str, op: Any, group: Sequence[Trial], decomposed: bool) -> None:
    """Prints the trials of a group that differ or fail."""
    try:
        found = results(op, group, decomposed)
    except Exception as error:  # whatever a compiler raises is what this looks for
        if len(group) == 1:
            text = " ".join(str(error).split())
            start = max(text.find("error: "), 0)  # the compiler's own message, behind its command
            print(f"{name} {group[0].words}: {type(error).__name__}: {text[start : start + 200]}", flush=True)
            return
        middle = len(group) // 2
        for half in (group[:middle], group[middle:]):
            search(name, op, half, decomposed)
        return
    for trial, value in zip(group, found, strict=True):
        pairs = zip(tensors(value), trial.expected, strict=True)
        if words := next(filter(None, (apart(a, b) for a, b in pairs)), ""):
            print(f"{name} {trial.words}: {words}", flush=True)


def in_a_process(name: str, op: Any, asked: argparse.Namespace) -> int:
    """Searches one operator in a forked process. Returns how many samples it ran."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        signal.alarm(asked.limit)
        group = list(trials(op, asked.dtype.split(","), asked.samples, asked.seed))
        os.write(writing, str(len(group)).encode())
        if asked.decomposed:
            for each in group:
                search(name, op, [each], True)
        elif group:
            search(name, op, group, False)
        sys.stdout.flush()
        os._exit(0)
    os.close(writing)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        print(f"{name}: ended by {signal.Signals(os.WTERMSIG(status)).name}", flush=True)
    elif status:
        print(f"{name}: its samples could not be made", flush=True)
    with os.fdopen(reading) as pipe:
        return int(pipe.read() or 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--decomposed", action="store_true", help="the decompositions in eager mode, without compiling")
    parser.add_argument("--op", default="*", help="names of operators, as PyTorch's samples have them")
    parser.add_argument("--dtype", default=",".join(DTYPES))
    parser.add_argument("--samples", type=int, default=2, help="of each operator and dtype")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=int, default=300, help="seconds for one operator")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    import torch._inductor.compile_fx  # once, before the processes are forked

    operators = samples = 0
    for op in op_db:
        name = f"{op.name}.{op.variant_test_name}".removesuffix(".")
        if fnmatch.fnmatch(op.name, asked.op) and not any(fnmatch.fnmatch(op.name, each) for each in LEFT_OUT):
            sys.stdout.flush()
            samples += in_a_process(name, op, asked)
            operators += 1
    print(f"{operators} operators, {samples} samples, dtypes {asked.dtype}, torch {torch.__version__}")


if __name__ == "__main__":
    main()
