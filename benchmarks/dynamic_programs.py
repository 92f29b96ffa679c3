"""Writes programs whose batch and length vary, to compare one export of each at several sizes.

    python benchmarks/dynamic_programs.py programs --count 200 --seed 1
    mindgap diff programs/*.py -p cpu/inductor -p onnxruntime/cpu -p openvino/cpu --dynamic x.0=0..17,x.1=1..33

A program applies `--steps` drawn calls to a float tensor [3, 5, 8] and to what it made of it. A call is kept if eager
mode takes it at the sizes of `SIZES`, and each output is finite there and moderate. So what an export refuses or
changes at one of these sizes is the export's or the runtime's.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from random import Random
from typing import Any, Final

import torch

#: Batch and length at which a program must run: those of the export, and others that are next to the width of a vector.
SIZES = ((3, 5), (1, 2), (2, 16), (8, 33))

#: Calls by their operands: `{f}` a float tensor, `{g}` a second one, `{i}` integers, `{b}` a mask, `{d}` a dimension.
#: A call is a line; a blank line ends a group, and groups are drawn with equal chance.
_CALLS: Final = """\
torch.sin({f})
functional.gelu({f})
torch.sigmoid({f})
{f}.abs().sqrt()
{f}.clamp(-1, 1)
torch.floor({f} * 3)
torch.round({f} * 3)
{f} + {g}
{f} * {g}
torch.maximum({f}, {g})
{f} / ({g}.abs() + 1)
torch.fmod({f} * 5, 3)
torch.remainder({f} * 5, 3)
torch.atan2({f}, {g})
torch.lerp({f}, {g}, 0.3)
torch.where({b}, {f}, {g})
{f}.masked_fill({b}, 0.5)
torch.exp(-{f}.abs())
functional.hardswish({f})
functional.softplus({f})
torch.copysign({f}, {g})
{f}.to(torch.bfloat16).float()
{f}.to(torch.float16).float()
{f}.double().cos().float()
{i}.float()
{b}.float()
torch.sign({f})

{f}.sum({d})
{f}.mean({d}, keepdim=True)
{f}.amax({d}, keepdim=True)
{f}.amin({d})
{f} - {f}.mean({d}, keepdim=True)
{f}.var({d}, correction=0)
{f}.std({d}, correction=0, keepdim=True)
torch.logsumexp({f}, {d})
{f}.softmax({d})
{f}.log_softmax({d})
{f}.cumsum({d})
{f}.tanh().cumprod({d})
{f}.sort({d}).values
{f}.sort({d}, descending=True).values
{f}.topk(1, {d}).values
{f}.norm(dim={d})
{f}.cummax({d}).values
{f}.sum((0, -1), keepdim=True)
{f}.flatten().sum()
functional.normalize({f}, dim={d})
{f}.median({d}).values
torch.logcumsumexp({f}, {d})
{f}.prod({d}).tanh()
{f} - {f}.amax()
{f}.var()
{f}.diff(dim={d})

torch.cat(({f}, {g}), {d})
torch.stack(({f}, {f} * 2), {d})
{f}.roll(1, {d})
{f}.flip({d})
{f}.flip(({d}, 0))
{f}.narrow({d}, 0, 1)
{f}[1:]
{f}[:, ::2]
{f}[..., :-1]
{f}.transpose(0, {d})
{f}.transpose(0, {d}).contiguous()
{f}.unsqueeze({d})
{f}.flatten(0, 1)
{f}.reshape({f}.shape[0], -1)
{f}.repeat_interleave(2, {d})
{f}[None].expand(2, *{f}.shape)
functional.pad({f}, (1, 2))
functional.pad({f}, (1, 0, 2, 1), value=0.5)
functional.pad({f}, (1, 1), mode='reflect')
functional.pad({f}, (2, 1), mode='replicate')
functional.pad({f}, (1, 1), mode='circular')
{f}.unfold({d}, 2, 1)
{f}.chunk(2, {d})[0]
{f}.split(2, {d})[-1]
torch.tril({f})
{f}.triu(1)
{f}.diagonal(dim1=0, dim2=1)
{f}.movedim(0, -1)
{f} + {f}.shape[{d}] * torch.arange({f}.shape[-1])
{f} * {f}.shape[{d}]
{f}.new_zeros({f}.shape[0], 4)
torch.zeros_like({f}).index_add(0, torch.arange({f}.shape[0]), {f})
{f}.squeeze({d})
{f}.tile(2, 1)
torch.meshgrid({f}.flatten()[:3], {f}.flatten()[-2:], indexing='ij')[0]

{f}.gather({d}, {f}.argsort({d}))
{f}.argmax({d})
{f}.argmin({d})
{f}.argsort({d}, stable=True)
torch.take_along_dim({f}, {f}.argmax({d}, keepdim=True), {d})
torch.bucketize({f}, torch.tensor([-1.0, 0.0, 1.0]))
functional.one_hot({i}.abs() % 5, 5)
{i} // 3
{i} % 3
({f} * 20).to(torch.int8)
({f}.abs() * 50).to(torch.uint8)
({f} * 4).to(torch.int32)
({f} * 4).long()
{i}.cumsum({d})
{i}.sum({d})
{i}.amax({d})
{i} >> 1
{f}.index_select({d}, torch.tensor([0]))
torch.searchsorted(torch.tensor([-1.0, 0.0, 1.0]), {f})
{f}.scatter({d}, {f}.argsort({d}), 1.0)
{b}.cumsum({d})
{b}.sum({d})

{f} > 0
{f} <= {g}
{i} == 1
~{b}
{b}.any({d})
{b}.all({d}, keepdim=True)
{b} & ({f} < 1)
torch.isclose({f}, {g})
torch.ones_like({f}, dtype=torch.bool).tril()

functional.linear({f}, self.weight)
{f} @ {f}.transpose(-1, -2)
functional.layer_norm({f}, {f}.shape[-1:])
torch.einsum('bsk,btk->bst', {f}, {g})
functional.conv1d({f}.transpose(1, 2), self.kernel, padding=1)
functional.avg_pool1d({f}, 2, ceil_mode=True)
functional.max_pool1d({f}, 2, 1)
functional.adaptive_avg_pool1d({f}, 2)
functional.adaptive_max_pool1d({f}, 3)
functional.interpolate({f}, scale_factor=2)
functional.interpolate({f}, scale_factor=1.5, mode='linear')
functional.interpolate({f}, size={f}.shape[-1] * 2, mode='linear', align_corners=True)
functional.scaled_dot_product_attention({f}, {f}, {f})
functional.scaled_dot_product_attention({f}, {f}, {f}, is_causal=True)
functional.embedding({i}.abs() % 8, self.weight)
functional.glu({f})
functional.cosine_similarity({f}, {g}, dim={d})
torch.cdist({f}, {f})
functional.group_norm({f}.transpose(1, 2), 2)
functional.instance_norm({f})
functional.mse_loss({f}, {g})
functional.smooth_l1_loss({f}, {g}, reduction='none')
"""
GROUPS: Final = [group.splitlines() for group in _CALLS.split("\n\n")]

PROGRAM = '''"""Drawn by benchmarks/dynamic_programs.py."""

import torch
from torch.nn import functional


class Program(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.linspace(-1, 1, 64).reshape(8, 8))
        self.register_buffer("kernel", torch.linspace(-1, 1, 96).reshape(4, 8, 3))

    def forward(self, x):
{lines}
        return {outputs}


def make():
    torch.manual_seed(0)
    return Program(), (torch.randn(3, 5, 8),)
'''


def sound(value: Any) -> bool:
    """Whether an output is a tensor of at most 100,000 elements that are finite and moderate."""
    if not isinstance(value, torch.Tensor) or not 0 < value.numel() <= 100_000:
        return False
    return not value.is_floating_point() or bool((value.abs() < 1e4).all())


def drawn(draw: Random, steps: int) -> tuple[list[str], list[str]]:
    """The lines and outputs of one program: every value that no later call reads is an output."""
    values: list[dict[str, torch.Tensor]] = []
    for batch, length in SIZES:
        torch.manual_seed(0)
        values.append({"x": torch.randn(batch, length, 8)})
    lines, read, space = list[str](), set[str](), dict[str, Any]()
    exec(PROGRAM.format(lines="", outputs="x"), space)
    space["self"] = space["Program"]()
    for _ in range(20 * steps):
        if len(lines) == steps:
            break
        known = values[0]
        kinds = {
            "f": [n for n, v in known.items() if v.is_floating_point()],
            "i": [n for n, v in known.items() if v.dtype in (torch.int64, torch.int32, torch.int8, torch.uint8)],
            "b": [n for n, v in known.items() if v.dtype == torch.bool],
        }
        kinds["g"] = kinds["f"]
        call = draw.choice(draw.choice(GROUPS))
        if any("{" + kind + "}" in call and not names for kind, names in kinds.items()):
            continue
        # Newer values are drawn more often, so that calls follow each other.
        chosen = {kind: draw.choice([*names, *names[-2:]]) for kind, names in kinds.items() if names}
        line = call.format(**chosen, d=draw.choice((0, 1, -1)))
        name = f"v{len(lines)}"
        results: list[torch.Tensor] = []
        for each in values:
            try:
                result = eval(line, space, dict(each))
            except Exception:
                break
            if not sound(result):
                break
            results.append(result)
        if len(results) < len(SIZES):
            continue
        for each, result in zip(values, results, strict=True):
            each[name] = result
        lines.append(f"{name} = {line}")
        read |= {chosen[kind] for kind in chosen if "{" + kind + "}" in call}
    return lines, [name for name in values[0] if name not in read and name != "x"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    draw, calls = Random(options.seed), set[str]()
    for number in range(options.count):
        lines, outputs = drawn(draw, options.steps)
        calls |= {line.partition(" = ")[2] for line in lines}
        text = PROGRAM.format(lines="\n".join(f"        {line}" for line in lines), outputs=", ".join(outputs))
        (options.out / f"program_{number:04}.py").write_text(text)
    print(f"{options.count} programs, {len(calls)} different calls")


if __name__ == "__main__":
    main()
