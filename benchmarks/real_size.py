"""Measures peak memory and time of `mindgap diff` on models of real size, beside the bare model in the same run.

Usage: `python benchmarks/real_size.py [MODEL …] [-p PLATFORM …] [--json FILE]`.

    bare   the model is built and run once in eager PyTorch, in a process of its own: peak memory, seconds
    diff   `mindgap diff` of the same function: peak memory of all its processes together, seconds, verdicts; what it
           expected beforehand

Seconds are of the clock, with processor seconds behind them, which other work on the machine changes less.

Memory is the proportional set size: a page that several processes map counts once. It is sampled every 0.2 seconds,
less often where sampling takes longer.

Targets (issue 15): diff <= 3 times bare + 1 GiB for any number of platforms; `llama_0.4b` on three platforms in four
minutes; `llama_1.1b` on a machine of 24 GiB. Targets (issue 31), with OpenVINO's default on a processor with bfloat16
(`-p openvino/cpu`), elsewhere with `-p openvino/cpu@precision=bf16`, which emulates it: `gpt2_0.4b` in two minutes,
`llama_1.1b` in four; the seconds expected within a factor of two where rows differ by rounding.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

_LLAMA: Final = """
from transformers import LlamaConfig, LlamaForCausalLM
config = LlamaConfig(vocab_size=32000, hidden_size={hidden}, intermediate_size={inner}, num_hidden_layers={layers},
                     num_attention_heads={hidden} // 64, num_key_value_heads={heads}, max_position_embeddings=2048,
                     use_cache=False)
model, args = LlamaForCausalLM(config), (torch.randint(32000, (1, 64)),)
"""
_GPT2: Final = """
from transformers import GPT2Config, GPT2LMHeadModel
config = GPT2Config(n_layer={layers}, n_embd={width}, n_head={width} // 64, vocab_size={words}, use_cache=False,
                    tie_word_embeddings=False)
model, args = GPT2LMHeadModel(config), (torch.randint({words}, (1, 16)),)
"""
_VIT: Final = """
from transformers import ViTConfig, ViTModel
model = ViTModel(ViTConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096))
args = (torch.randn(1, 3, 224, 224),)
"""
MODELS: Final = {
    "llama_tiny": _LLAMA.format(hidden=64, inner=128, layers=2, heads=1),
    "llama_0.04b": _LLAMA.format(hidden=384, inner=1024, layers=8, heads=6),
    "llama_0.4b": _LLAMA.format(hidden=1024, inner=2816, layers=24, heads=16),
    "llama_1.1b": _LLAMA.format(hidden=2048, inner=5632, layers=22, heads=4),
    "gpt2_tiny": _GPT2.format(layers=2, width=64, words=500),
    "gpt2_0.4b": _GPT2.format(layers=24, width=1024, words=50257),
    "vit_0.3b": _VIT,
}
#: The declarations stand in for torchvision's own operators, which transformers imports and CPU builds may lack.
_BARE: Final = """
import runpy, sys, torch
from mindgap.sources.libraries import declare_operators
declare_operators()
model, args = runpy.run_path(sys.argv[1])["make"]()
with torch.no_grad():
    model(*args)
"""
_PLATFORMS: Final = ("cpu/jit", "onnxruntime/cpu", "openvino/cpu@precision=f32")
_INTERVAL_S: Final = 0.2
_EXPECTED: Final = re.compile(r"(about [\d.]+ GiB of memory and \d+ min) expected")


@dataclass(frozen=True)
class Measured:
    """`cpu`: processor seconds of all processes. `peak`: bytes of all processes together. `parts`: of each process at
    that moment, by its name. `expected`: what the command expected beforehand, empty for a small model."""

    seconds: float
    cpu: float
    peak: int
    parts: dict[str, int]
    status: int
    expected: str


def user_file(folder: Path, name: str) -> Path:
    """The file that a user would have: `make` returns the model and its arguments."""
    body = "".join(f"    {line}\n" for line in MODELS[name].strip().splitlines())
    path = folder / "model.py"
    path.write_text(f"import torch\n\n\ndef make():\n    torch.manual_seed(0)\n{body}    return model.eval(), args\n")
    return path


def measured(command: Sequence[str], environment: dict[str, str], out: Path) -> Measured:
    """Runs a command, its output in `out`, and samples the memory of its process and all that it started."""
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    peak, parts, log = 0, dict[str, int](), out.with_suffix(".log")
    with (
        out.open("w") as file, log.open("w") as messages,
        subprocess.Popen(command, env=environment, stdout=file, stderr=messages) as running,
    ):  # fmt: skip
        root = psutil.Process(running.pid)
        while running.poll() is None:
            sampling = time.perf_counter()
            now = _sizes(root)
            sampling = time.perf_counter() - sampling
            if sum(now.values()) > peak:
                peak, parts = sum(now.values()), now
            # Pages are counted one by one, while the process waits: at most a thirtieth of the time.
            time.sleep(max(_INTERVAL_S, 30 * sampling))
    seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    said = log.read_text()
    if running.returncode not in (0, 1):
        sys.stderr.write(said)
    found = _EXPECTED.search(said)
    return Measured(seconds, cpu, peak, parts, running.returncode, found[1] if found else "")


def _sizes(root: psutil.Process) -> dict[str, int]:
    found: dict[str, int] = {}
    with suppress(psutil.Error):
        for each in [root, *root.children(recursive=True)]:
            with suppress(OSError, psutil.Error, StopIteration):
                lines = Path(f"/proc/{each.pid}/smaps_rollup").read_text().splitlines()
                size = next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
                found[f"{_called(each)} ({each.pid})"] = size * 1024
    return found


def _called(process: psutil.Process) -> str:
    command = process.cmdline()
    if "--platform" in command:
        return command[command.index("--platform") + 1]
    return command[command.index("-m") + 1] if "-m" in command else Path(command[-1]).name


def gib(size: float) -> float:
    return round(size / 2**30, 2)


def compare(name: str, platforms: Sequence[str]) -> dict[str, Any]:
    """Measures both and prints one line, then the parts of the peak."""
    with tempfile.TemporaryDirectory() as folder:
        path = user_file(Path(folder), name)
        out = Path(folder) / "out.json"
        environment = {**os.environ, "MINDGAP_HOME": f"{folder}/home"}
        bare = measured([sys.executable, "-c", _BARE, str(path)], environment, out)
        asked = [part for platform in platforms for part in ("-p", platform)]
        command = [sys.executable, "-m", "mindgap", "diff", f"{path}:make", *asked, "--json"]
        diff = measured(command, environment, out)
        report = json.loads(out.read_text() or '{"rows": []}')
    rows = {row["platform"]: [row["verdict"], row["detail"], row["timings"]] for row in report["rows"]}
    bound = 3 * bare.peak + 2**30
    print(f"{name}: bare {gib(bare.peak)} GiB {bare.seconds:.0f} s ({bare.cpu:.0f} CPU s); "
          f"diff {gib(diff.peak)} GiB {diff.seconds:.0f} s ({diff.cpu:.0f} CPU s), "
          f"status {diff.status}; {diff.peak / bare.peak:.1f} times bare, {diff.peak / bound:.2f} of the target; "
          f"{diff.cpu / bare.cpu:.1f} times the CPU s; expected {diff.expected or 'nothing'}")  # fmt: skip
    for part, size in sorted(diff.parts.items(), key=lambda item: -item[1]):
        print(f"    {gib(size):6.2f} GiB  {part}")
    for platform, (verdict, detail, _) in rows.items():
        print(f"    {platform}: {verdict} {detail[:100]}", flush=True)
    return {"model": name, "bare": vars(bare), "diff": vars(diff), "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", default=["llama_0.04b"], help=" ".join(MODELS))
    parser.add_argument("-p", "--platform", action="append", help=f"default: {' '.join(_PLATFORMS)}")
    parser.add_argument("--json", type=Path, help="write every figure here")
    chosen = parser.parse_args()
    if unknown := sorted(set(chosen.models) - set(MODELS)):
        parser.error(f"no such model: {', '.join(unknown)}; there are {', '.join(MODELS)}")
    found = [compare(name, chosen.platform or _PLATFORMS) for name in chosen.models]
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
