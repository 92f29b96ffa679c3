"""The everyday things, what is right for each, and how a row of mindgap compares with it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TRUTH, WRONG = HERE / "truth.json", HERE / "wrong.json"
PLATFORMS = ("cpu/jit", "cpu/inductor", "onnxruntime/cpu", "openvino/cpu@precision=f32")
FILE_PLATFORMS = ("onnxruntime/cpu", "openvino/cpu@precision=f32")
#: Errors up to so many times the noise are rounding.
CALM = 16.0
#: Noise is taken for at least this: half a unit in the last place of float32.
LEAST = 6e-8
#: Programs that exporters refuse if the user gives them the cache itself, and take if it is hidden in a module.
REFUSED_CACHES = ("caches:prefill_into_an_empty_cache", "caches:step_with_a_dynamic_cache")
#: Where a person has decided otherwise than the measurement, with the reason.
DECIDED = {
    ("dtypes:double", "openvino/cpu@precision=f32"): ("finding", "float64 is float32 there: 4e-8 is 2e8 units"),
    ("dtypes:accumulated_in_double", "openvino/cpu@precision=f32"): ("finding", "float64 is float32 there"),
    ("dtypes:autocast", "openvino/cpu@precision=f32"): ("finding", "x.to(bfloat16) rounds toward zero, 3 of 10 values"),
    ("dtypes:bfloat16", "openvino/cpu@precision=f32"): ("either", "not measured: numpy has no bfloat16 to feed"),
    ("file:bert_optimised_in_half", "openvino/cpu@precision=f32"): ("calm", "7e-4 in float16; its inputs are integers"),
    ("state:dropout_with_a_generator", "cpu/jit"): ("finding", "the trace draws others: 1.9 of 1.9 off, each time"),
    ("file:operator_set_9", "onnxruntime/cpu"): ("calm", "the evaluator takes this BatchNormalization for training"),
    ("file:operator_set_9", "openvino/cpu@precision=f32"): ("calm", "as on onnxruntime/cpu, which gives the same"),
    ("caches:step_with_a_static_cache", "cpu/jit"): (
        "either", "the trace holds the cache itself, which tracing has filled further: a user cannot feed another",
    ),
    **{
        ("text:mixture_unsorted", platform): ("calm", "topk(sorted=False): any order of the chosen is right")
        for platform in ("cpu/jit", "cpu/inductor", "onnxruntime/cpu", "openvino/cpu@precision=f32")
    },
    **{
        (name, platform): ("failed", "PyTorch: unsupported input type DynamicCache")
        for name in REFUSED_CACHES
        for platform in ("cpu/jit", "onnxruntime/cpu", "openvino/cpu@precision=f32")
    },
}  # fmt: skip
CALM_VERDICTS = frozenset({"identical", "rounding", "ill_conditioned", "undefined", "internal"})


@dataclass(frozen=True)
class Answer:
    """What mindgap answers for one thing on one platform: one of the words of `docs/everyday.md`."""

    word: str
    detail: str = ""
    seconds: float = 0.0


Answers = dict[str, dict[str, Answer]]


def truth() -> dict[str, dict[str, str]]:
    """What is right for each thing and platform: calm, finding, failed, frozen or refused."""
    found: dict[str, dict[str, str]] = {}
    for name, rows in json.loads(TRUTH.read_text()).items():
        platforms = [each for each in rows if each != "eager"]
        if "failed" in rows["eager"] or name.startswith("mistakes:"):  # raises in eager mode, or cannot be read
            found[name] = dict.fromkeys(FILE_PLATFORMS if name.startswith("file:") else PLATFORMS, "refused")
        elif name.startswith("file:") and all("failed" in rows[each] for each in platforms):
            found[name] = dict.fromkeys(FILE_PLATFORMS, "refused")
        else:
            found[name] = {each: right_of(rows, each) for each in platforms}
            found[name] |= {each: DECIDED[name, each][0] for each in found[name] if (name, each) in DECIDED}
    return found


def right_of(rows: Mapping[str, Any], platform: str) -> str:
    """The word for a measurement."""
    row, noise = rows[platform], rows["eager"].get("noise", 0.0)
    if "failed" in row:
        return "failed"
    limit = CALM * max(noise if isinstance(noise, float) else 0.0, LEAST)
    off = [
        not isinstance(row.get(each, 0.0), float) or row.get(each, 0.0) > limit for each in ("error", "second", "other")
    ]
    return "finding" if off[0] or off[1] else "frozen" if off[2] else "calm"


def wrong() -> dict[str, dict[str, str]]:
    """Rows that mindgap still answers wrongly, with its word."""
    return json.loads(WRONG.read_text()) if WRONG.exists() else {}


def source_of(name: str, folder: Path) -> str:
    theme, _, rest = name.partition(":")
    if theme != "file":
        return f"{HERE}/programs/{theme}.py:{rest}"
    return str(next(path for path in (folder / f"{rest}.onnx", folder / f"{rest}.tflite") if path.exists()))


def options_of(name: str, folder: Path) -> list[str]:
    given = folder / f"{name.partition(':')[2]}.npz"
    return ["--inputs", str(given)] if name.startswith("file:") and given.exists() else []


def build_files(names: Sequence[str], folder: Path) -> None:
    from everyday import files
    from everyday.measure_truth import declare_operators

    if names:
        declare_operators()
        files.build_all(folder, [name.partition(":")[2] for name in names])


def answers(report: Mapping[str, Any], sources: Mapping[str, str], platforms: Sequence[str]) -> Answers:
    """Reads a report. `sources`: source -> name."""
    found: Answers = {}
    for row in report["rows"]:
        name = next((each for source, each in sources.items() if row["model"] in model_names(source)), row["model"])
        found.setdefault(name, {})[row["platform"]] = answer_of(row)
    for refused in report["refused"]:
        name = sources.get(refused["source"], refused["source"])
        for platform in platforms:
            word = "broken" if refused["broken"] else "refused"
            found.setdefault(name, {}).setdefault(platform, Answer(word, refused["reason"]))
    return found


def model_names(source: str) -> tuple[str, ...]:
    """How a report may name a source."""
    path, _, function = source.partition(".py:")
    return (f"{Path(path).name}:{function}",) if function else (Path(source).stem, Path(source).name, source)


def answer_of(row: Mapping[str, Any]) -> Answer:
    own = row["own_path"] or {}
    seconds = row["timings"].get("total", 0.0) + own.get("seconds", 0.0)
    detail = " ".join((row["message"] or own.get("detail", "") or row["detail"]).split())
    if row["broken"]:
        return Answer("broken", row["broken"].strip().splitlines()[-1], seconds)
    verdict = row["verdict"]
    if verdict in CALM_VERDICTS:
        return Answer("calm", detail, seconds)
    if verdict == "failed":
        return Answer("failed", detail, seconds)
    if verdict is not None:
        return Answer("finding", f"{verdict}: {detail}", seconds)
    return Answer("unsupported" if row["status"] == "unsupported" else "unjudged", detail, seconds)


def fits(answer: Answer, right: str) -> bool:
    """Whether an answer is right. What a platform does not take may be `unsupported`. Where only other arguments show
    what an export froze, a finding and a calm row are right; so they are where a person has decided on `either`."""
    others = {"failed": {"unsupported"}, "frozen": {"calm", "finding"}, "either": {"calm", "finding", "failed"}}
    return answer.word in {right, *others.get(right, ())}


def wrong_rows(found: Answers, truth: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, str, Answer, str]]:
    for name, platforms in found.items():
        for platform, answer in platforms.items():
            right = truth.get(name, {}).get(platform)
            if right is not None and not fits(answer, right):
                yield name, platform, answer, right


def as_wrong(found: Answers, truth: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """The content of `wrong.json`: what was not run stays as it is."""
    kept = {name: dict(rows) for name, rows in wrong().items()}
    for name, platforms in found.items():
        kept[name] = {each: word for each, word in kept.get(name, {}).items() if each not in platforms}
    for name, platform, answer, _ in wrong_rows(found, truth):
        kept[name][platform] = answer.word
    return {name: rows for name, rows in sorted(kept.items()) if rows}


def page(found: Answers, truth: Mapping[str, Mapping[str, str]], platforms: Sequence[str]) -> str:
    """The page `docs/everyday.md`."""
    rows = [(name, each, answer) for name, given in found.items() for each, answer in given.items()]
    off = list(wrong_rows(found, truth))
    lines = [
        "# Everyday programs and files", "",
        "Made by `python benchmarks/everyday.py --write`. Each thing of `tests/everyday` on each platform: the",
        "answer of `mindgap diff`, and the seconds of the row, with other work on two cores.",
        "`python tests/everyday/measure_truth.py` measured without mindgap what is right: eager mode in float32 and",
        "float64, `torch.jit.trace`, `torch.compile`, `torch.onnx.export` with a session, `torch.export` with",
        "`openvino.convert_model`. Each measurement has new arguments and a process of its own.",
        "",
        f"{len(found)} things, {len(rows)} rows, {len(off)} wrong.", "",
        "| answer | meaning |", "|---|---|",
        "| calm | the difference is rounding, or there is none |",
        "| finding | the platform gives something else |",
        "| failed, unsupported | the platform's exporter or runtime raises, or refuses |",
        "| refused | the program raises in eager mode, or no runtime loads the file |",
        "| unjudged, broken | no answer: always wrong |", "",
    ]  # fmt: skip
    if off:
        lines += ["## Wrong today", "", "| thing | platform | answer | right |", "|---|---|---|---|"]
        lines += [f"| `{name}` | `{each}` | {answer.word} | {right} |" for name, each, answer, right in off]
        lines.append("")
    lines += [
        "## All",
        "",
        f"| thing | {' | '.join(f'`{each}`' for each in platforms)} |",
        "|---" * (1 + len(platforms)) + "|",
    ]
    for name, given in found.items():
        cells = [f"{given[each].word} {given[each].seconds:.1f}" if each in given else "" for each in platforms]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
