"""Says what the reader of a row can do, where that is known: another option, another dtype, another way in.

Advice that cannot be followed is a defect: `tests/mindgap/results/test_advice.py` follows each.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final

from mindgap.graph import MindgapError
from mindgap.graph.compare.culprit import Culprit, DtypePolicy, SubmoduleCulprit
from mindgap.graph.compare.reason import ReasonKind, has
from mindgap.graph.compare.verdict import Fault
from mindgap.platforms.name import PlatformName
from mindgap.platforms.other_environment import BackendInEnvironment, BackendWithoutEnvironment
from mindgap.platforms.protocol import Advised, Alternative
from mindgap.platforms.registry import find
from mindgap.results.rows import Row

#: What to do about numbers that a program reads from its tensors.
_AS_TENSORS: Final = (
    "compute with tensors: no .item(), int(), .numpy() or `if` on a value that depends on an argument (torch.where, "
    "torch.cond and masks take their place)"
)
#: Options by which a user asks for fewer bits than the graph declares, with the values that do.
_ASKED: Final = {
    "autocast": ("bfloat16", "float16"), "matmul": ("high", "medium"), "tf32": ("on",), "hf32": ("on",),
    "fp16_accumulation": ("on",), "precision": ("bf16", "high", "default"),
}  # fmt: skip
#: The float dtypes that a module can be converted to, with what converts it.
_CONVERSIONS: Final = {"float32": "float", "float16": "half", "bfloat16": "bfloat16"}
#: Modules in training mode that are named.
_MOST_MODULES: Final = 6
#: What to do about a program's own export, by the kind of the reason. The first that is there.
_OF_EXPORT: Final[Mapping[ReasonKind, str]] = {
    "custom_operator": (
        "write it with PyTorch's own operators, or declare it to each exporter: register_fake for torch.export and "
        "torch.compile, custom_translation_table= of torch.onnx.export, extension= of openvino.convert_model"
    ),
    "environment_question": "leave the branch out, or have both sides of it compute the same",
    "state_not_kept": "take what is kept as an argument and return its new value",
    "no_conversion": "write the operators that are named with others",
    "dynamic_size": (
        "let the dynamic size stay a size: no loop over the dimension, no int(), math or NumPy on it. Or export a file "
        "for each size"
    ),
    "fixed_value": _AS_TENSORS,
    "tensor_value": _AS_TENSORS,
    "tracer_warning": _AS_TENSORS,
    "random": "call .eval(), and give F.dropout training=self.training; take other random numbers as an argument",
}


def advised(row: Row) -> Row:
    """The row and its faults with advice. A fault that has some already, as from a ledger, keeps it."""
    faults = tuple(
        dataclasses.replace(
            fault, advice=fault.advice or _culprit_advice(row.platform, fault.culprit) or _export_advice(fault)
        )
        for fault in row.faults
    )
    first = faults[0].advice if faults else _culprit_advice(row.platform, row.culprit)
    parts = dict.fromkeys([first, _training_advice(row), _not_compared_advice(row)])
    return dataclasses.replace(row, faults=faults, advice="; ".join(filter(None, parts)))


def _culprit_advice(platform: PlatformName, culprit: Culprit | None) -> str:
    """What to do about a dtype policy: how to compute as declared, where that is known, and how to accept it."""
    if not isinstance(culprit, DtypePolicy):
        return ""
    words = culprit.words.replace(" computed in ", " in ")
    accept = f"to accept it: --allow '{platform}: {words}'"
    return "; ".join(filter(None, (_remedy(platform, culprit), accept)))


def _export_advice(fault: Fault) -> str:
    """What to do about a program whose own export is wrong or fails. A failure's first reason is from its message and
    decides; of wrong outputs the first kind of `_OF_EXPORT` does. A decision by data in no line is the compiler's."""
    if not isinstance(fault.culprit, SubmoduleCulprit):
        return ""
    failed, given = fault.verdict == "failed", {each.kind: _OF_EXPORT.get(each.kind) for each in fault.reasons}
    advice = next(filter(None, given.values() if failed else map(given.get, _OF_EXPORT)), "")
    return "" if failed and advice == _AS_TENSORS and fault.culprit.label == fault.culprit.path else advice


def _remedy(platform: PlatformName, policy: DtypePolicy) -> str:
    """How to have a dtype computed as declared; empty where that is not known."""
    if policy.saturates:
        return ""
    remedied = "int8" if policy.computed == "int8" else policy.declared
    for other in alternatives(platform):
        if other.remedies == remedied:
            better = with_option(platform, other.option)
            return f"compare {better} instead: it computes in {policy.declared}; {other.setting}"
    given = platform.backend_options
    if settings := [f"{name}={value}" for name, value in given.items() if value in _ASKED.get(name, ())]:
        return f"{', '.join(settings)} asks for it: leave it out to compute in {policy.declared}"
    if policy.computed in _CONVERSIONS and not policy.products:
        convert = _CONVERSIONS[policy.computed]
        return (
            f"no {policy.declared} arithmetic there: if {policy.computed} is enough, convert the model and its "
            f"arguments (model.{convert}()); else run it on another platform"
        )
    return ""


def _training_advice(row: Row) -> str:
    """What to do about modules in training mode, which exporters treat in their own way. Of findings and refusals."""
    training = row.own_path.training if row.own_path is not None else ()
    if not training or not (row.finding or row.status == "unsupported"):
        return ""
    more = f" and {len(training) - _MOST_MODULES} more" if len(training) > _MOST_MODULES else ""
    named = ", ".join(training[:_MOST_MODULES]) + more
    return f"call .eval() if the model is deployed so (in training mode: {named})"


def _not_compared_advice(row: Row) -> str:
    """What to do about a refusal, and about a row for which there was no time or no judge."""
    if row.status == "unsupported":
        ways = [other for other in alternatives(row.platform) if other.remedies == "refusals"]
        return " ".join(f"{with_option(row.platform, way.option)} may run it; {way.setting}" for way in ways)
    if row.unknown and has(row.reasons, "time_budget"):
        return "give --budget more time, or compare fewer platforms at once"
    if row.unjudged and has(row.reasons, "no_judge"):
        return "leave out --no-judge to have it judged"
    return ""


def alternatives(platform: PlatformName) -> Sequence[Alternative]:
    """Returns what the platform's backend declares, but for options that the platform has."""
    try:
        backend, options = find(platform)
    except MindgapError:
        # A report may name a platform that is not registered here.
        return ()
    inner = backend.backend if isinstance(backend, BackendInEnvironment | BackendWithoutEnvironment) else backend
    if not isinstance(inner, Advised):
        return ()
    given = {f"{name}={value}" for name, value in options.items()}
    return [other for other in inner.alternatives if other.option not in given]


def with_option(platform: PlatformName, option: str) -> PlatformName:
    """Returns the platform with one more option, `name=value`."""
    name, _, value = option.partition("=")
    return platform.with_options(**{name: value})
