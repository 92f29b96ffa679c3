"""Measures what becomes of real programs that an export or a capture of the whole program cannot take.

Four kinds, each from the architectures of the model libraries: `loop`, the generate loop of a transformers model;
`experts`, transformers models that route tokens by their values; `quantised`, timm models with dynamically quantised
layers; `compiled` and `parallel`, timm models with a submodule in `torch.compile` or as a whole in `DataParallel`. Each
program is a function in a file of its own, as a user has it, and is captured by the process that `mindgap capture`
uses. A program that does not run without capture is not counted, and of `experts` those that are captured are not:
they do not read the values.

Run it with `python benchmarks/refused_programs.py --minutes 15`. The programs come in a seeded random order, so that a
part is a sample of all. `--second` also captures the second call of each loop's model, one decoding step.
"""

from __future__ import annotations

import argparse
import collections
import json
import random
import re
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import nn

HERE = Path(__file__).resolve().parent
#: Lists of transformers' classes that generate text, by the module `modeling_auto`.
GENERATE = ("CAUSAL_LM", "SEQ_TO_SEQ_CAUSAL_LM", "IMAGE_TEXT_TO_TEXT", "SPEECH_SEQ_2_SEQ")
NOT_GIVEN = ("decoder", "labels", "position_ids", "token_type_ids", "bbox")


class Loop(nn.Module):
    """Generates three tokens, greedily."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, **given: Any) -> Any:
        return self.model.generate(**given, max_new_tokens=3, do_sample=False, pad_token_id=0)


def loop(name: str) -> tuple[Any, ...]:
    """The generate loop of a transformers class with a small configuration."""
    model, _, given = _built(f"transformers:{name}")
    tensors = {k: v for k, v in given.items() if isinstance(v, torch.Tensor) and not k.startswith(NOT_GIVEN)}
    return _running(Loop(model), (), tensors)


def experts(name: str) -> tuple[Any, ...]:
    return _running(*_built(f"transformers:{name}"))


def quantised(name: str) -> tuple[Any, ...]:
    model, given, _ = _built(f"timm:{name}?size=64")
    done = torch.ao.quantization.quantize_dynamic(model, {nn.Linear})
    if not any(".quantized." in type(module).__module__ for module in done.modules()):
        raise RuntimeError("no layer was quantised")
    return _running(done, given, {})


def compiled(name: str) -> tuple[Any, ...]:
    model, given, _ = _built(f"timm:{name}?size=64")
    children = {name: child for name, child in model.named_children() if not isinstance(child, nn.ModuleList)}
    largest = max(children, key=lambda child: sum(p.numel() for p in children[child].parameters()))
    _running(model, given, {})  # compiled, it would take minutes
    setattr(model, largest, torch.compile(children[largest]))
    return model, given


def parallel(name: str) -> tuple[Any, ...]:
    model, given, _ = _built(f"timm:{name}?size=64")
    return _running(nn.DataParallel(model), given, {})


def _built(source: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    from mindgap.sources import Program, open_source

    (program,) = open_source(source)
    assert isinstance(program, Program)
    return program.build()


def _running(program: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Raises what the program raises without capture."""
    with torch.no_grad():
        program(*args, **kwargs)
    return program, args, kwargs


def programs() -> list[tuple[str, str]]:
    """(kind, name) of all programs, in a random order that is always the same."""
    from mindgap.sources.libraries import declare_operators
    from mindgap_campaign.catalogue.patterns import expand

    declare_operators()
    import timm
    from transformers.models.auto import modeling_auto

    kept: set[str] = set()
    for task in GENERATE:
        listed: dict[str, Any] = vars(modeling_auto)[f"MODEL_FOR_{task}_MAPPING_NAMES"]
        kept.update(name for value in listed.values() for name in ([value] if isinstance(value, str) else value))
    base = [source.partition(":")[2] for source in expand("transformers:*")]
    small = [
        name for name in timm.list_models() if re.search(r"test_|atto|femto|pico|nano|tiny|mobile|_50|_xxs|_t\d", name)
    ]
    small = [name for name in small if not re.search("large|huge|medium|base|384|512", name)]
    found = [("loop", name) for name in sorted(kept)]
    found += [
        ("experts", name) for name in base if re.search("Moe|MoE|Mixtral|Switch|Dbrx|Jamba|GptOss|DeepseekV", name)
    ]
    found += [(kind, name) for kind in ("quantised", "compiled", "parallel") for name in small]
    random.Random(0).shuffle(found)
    return found


def outcome(client: Any, folder: Path, kind: str, name: str, second: bool) -> dict[str, Any]:
    """What became of one program: `result`, `reason`, and the seconds that it took."""
    from mindgap.graph import MindgapError

    file = folder / f"{kind}_{name}.py"
    file.write_text(
        f"import sys\nsys.path.insert(0, {str(HERE)!r})\nimport refused_programs\n\n\n"
        f"def make():\n    return refused_programs.{kind}({name!r})\n"
    )
    began = time.monotonic()
    row: dict[str, Any] = {"kind": kind, "name": name, "reason": "", "second": ""}
    try:
        opened = client.open(f"{file}:make")
    except (MindgapError, RuntimeError) as error:
        return {**row, "result": "does not run", "reason": str(error)[-300:]}
    try:
        row.update(result="captured", nodes=len(client.capture(opened, 0).nodes))
    except MindgapError as error:
        row["reason"] = str(error)
        row["result"] = "way on" if "these submodules can be captured" in row["reason"] else "refused"
        if re.search(r"killed by|exited with status", row["reason"]):
            row["result"] = "crashed"
    except RuntimeError as error:
        row.update(result="failed inside mindgap", reason=str(error))
    call = re.search(r"captured: (\S+) \(.*?called \d+ times", row["reason"])
    if second and kind == "loop" and call:
        try:
            client.capture(client.open(f"{file}:make?inside={call[1]}&call=2"), 0)
            row["second"] = "captured"
        except (MindgapError, RuntimeError) as error:
            row["second"] = str(error)
    return {**row, "seconds": round(time.monotonic() - began, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--second", action="store_true")
    parser.add_argument("--kinds", nargs="*", help="only these")
    parser.add_argument("--most", type=int, default=None, help="programs of each kind")
    parser.add_argument("--rows", type=Path, help="where a line of JSON goes for each program")
    chosen = parser.parse_args()
    from mindgap.graph import TensorStore
    from mindgap.source_worker.client import SourceClient

    left: list[tuple[str, str]] = []
    counts: collections.Counter[str] = collections.Counter()
    for kind, name in programs():
        if (not chosen.kinds or kind in chosen.kinds) and (chosen.most is None or counts[kind] < chosen.most):
            left.append((kind, name))
            counts[kind] += 1
    stop, rows, lock = time.monotonic() + 60 * chosen.minutes, list[dict[str, Any]](), threading.Lock()

    def work(folder: Path) -> None:
        with SourceClient(TensorStore(folder / "tensors"), 90.0) as client:
            # A program that is opened and never captured keeps the process, and the libraries that it imported.
            client.open("ops:add#0")
            while time.monotonic() < stop:
                with lock:
                    if not left:
                        return
                    kind, name = left.pop(0)
                row = outcome(client, folder, kind, name, chosen.second)
                with lock:
                    rows.append(row)
                    if chosen.rows:
                        with chosen.rows.open("a") as file:
                            file.write(json.dumps(row) + "\n")

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(chosen.jobs) as pool:
        list(pool.map(work, [Path(folder)] * chosen.jobs))
    report(rows)


def report(rows: list[dict[str, Any]]) -> None:
    """Prints a line for each kind, and the reasons of what has no way on."""
    results = ("captured", "way on", "refused", "crashed", "failed inside mindgap", "does not run")
    print("kind".ljust(12), *[result.rjust(22) for result in results])
    for kind in (*sorted({row["kind"] for row in rows}), "all"):
        of = [row["result"] for row in rows if kind in (row["kind"], "all")]
        print(kind.ljust(12), *[str(of.count(result)).rjust(22) for result in results])
    seconds = [row["second"] for row in rows if row["second"]]
    if seconds:
        print(f"second call of a loop's model: {seconds.count('captured')} of {len(seconds)} captured")
    for row in rows:
        if row["result"] in ("refused", "crashed", "failed inside mindgap"):
            print(f"{row['result']}: {row['kind']} {row['name']}: {row['reason'].strip().splitlines()[-1][:200]}")


if __name__ == "__main__":
    sys.exit(main())
