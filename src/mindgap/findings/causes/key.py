"""Computes the key of a cause: findings with equal keys have one root cause."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Final

from mindgap.findings.causes.cause import Damage
from mindgap.findings.causes.packets import functions_of
from mindgap.findings.causes.signatures import (
    EMPTY_IS_SCALAR,
    change_of_structure,
    message_without_operators,
    operator_of_message,
    torchax_rule,
    without_runtime_operator,
)
from mindgap.findings.reduction.files import Summary, signature_of
from mindgap.findings.reduction.reproducer import HAPPENS, side_at_fault
from mindgap.graph.compare.culprit import DtypePolicy, SubmoduleCulprit, policy_of
from mindgap.graph.operators.registry import traits
from mindgap.platforms.name import PlatformName, recorded
from mindgap.platforms.protocol import SharesCompiler, Translated
from mindgap.platforms.registry import registered
from mindgap.results.failure_rules import rule_of
from mindgap.results.rows import Row

_TITLE: Final = 100
#: Where a fault is that is not a platform's own.
REFERENCE: Final = "eager PyTorch"
EXPORTER: Final = "torch.onnx"
EXPORTED: Final = "the exported program"
#: Stages of `torch.onnx.export`, which several platforms begin with.
EXPORT_STAGES: Final = frozenset({"graph capture", "functionalisation", "decomposition", "exporter"})
#: Families of operators which runtimes translate by one function: `std` and `var`, `amax` and `amin`.
_SHARE_TRANSLATIONS: Final = frozenset((
    "comparisons", "distances", "fourier", "integers", "interpolation", "normalisation", "ordering", "pooling",
    "reductions", "rounding",
))  # fmt: skip
#: The front end of JAX and LiteRT, which has a copy of it.
TORCHAX: Final = "torchax"
_ARE_TORCHAX: Final = frozenset({TORCHAX, "litert_torch"})
#: Functions that one translation computes by an argument: an equal message is one cause.
_TWINS: Final = {"tril_indices": "tril_indices", "triu_indices": "tril_indices", "tril": "tril", "triu": "tril"}
#: Where a runtime's operator for convolutions does not take a dtype, that for transposed ones does not either.
_CONVOLUTION: Final = re.compile(r"conv(?:_transpose)?[123]d|convolution")


@dataclass(frozen=True, slots=True)
class CauseKey:
    """What findings with one root cause have in common.

    `where`: the code at fault: a platform's DEVICE/MODE, the ONNX exporter, or eager PyTorch. `operators`: functions,
    sorted; of a failure that alike operators share, their family; none where the message or a dtype policy is enough.
    `dtypes`: of inputs, as far as they tell two defects apart: their class; where precision is lost, the dtypes.
    `signature`: of a failure, without names of operators; of a dtype policy, its text; of another shape or dtype, what
    it becomes. `stage`: of a wrong result on a platform whose stage at fault is known. `mechanism`: the code at fault,
    where it is known; then neither operators nor stage count.
    """

    where: str
    damage: Damage
    operators: tuple[str, ...] = ()
    dtypes: str = ""
    signature: str = ""
    stage: str = ""
    mechanism: str = ""

    @property
    def policy(self) -> DtypePolicy | None:
        """The dtype policy that is the cause; None where it is none."""
        return policy_of(self.signature)

    @property
    def id(self) -> str:
        """Ten hexadecimal digits: the same for equal keys, in every process and version."""
        data = asdict(self)
        if not self.mechanism:
            del data["mechanism"]  # as in versions that knew none
        return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:10]


def cause_key_of_summary(summary: Summary) -> CauseKey:
    """The key of a reduced finding: what is at fault where that is known, else the operators."""
    policy = "" if summary.policy is None else summary.policy.op
    damage = damage_of(summary.verdict, summary.status, special=summary.special_inputs)
    where = _where(summary.platform, summary.blame, summary.verdict, summary.stage)
    wide = " ".join(sorted(dtype for dtype in summary.dtypes if "float" in dtype))
    dtypes = wide if damage == "precision" else _class_of(summary.dtypes)
    key = _key(where, damage, summary.operators, dtypes, policy, summary.signature)
    if summary.mechanism and not policy:
        return replace(key, operators=(), mechanism=summary.mechanism)
    staged = where not in (REFERENCE, EXPORTER) and damage in ("values", "special values", "precision") and not policy
    return replace(key, stage=summary.stage) if staged and summary.stage != "unknown" else key


def cause_key_of_row(row: Row) -> CauseKey:
    """The key of a finding that was not reduced: from its culprit, or from its failure.

    Less is known than after a reduction, so that the key differs from that of the reduced finding. Exports of two
    programs, or of two submodules, are not wrong for one cause; one submodule that several exports change is.
    """
    key = cause_key_of_summary(summary_of_row(row))
    if not isinstance(row.culprit, SubmoduleCulprit):
        return key
    where = EXPORTED if row.verdict == "export" else key.where
    return replace(key, where=where, signature=f"{row.model}: {row.culprit.op}, {row.culprit.label}".removesuffix(", "))


def summary_of_row(row: Row) -> Summary:
    """A finding that was not reduced as a summary, without dtypes, stage and script. NaN counts as given by inputs."""
    culprit = row.culprit
    named = "" if culprit is None else culprit.words if isinstance(culprit, DtypePolicy) else culprit.op
    what = named or row.signature.partition(" | ")[0][:_TITLE] or "no operator is named"
    return Summary(
        title=f"{side_at_fault(row)}: {what}: {HAPPENS.get(row.verdict or '', row.word)}",
        platform=row.platform,
        verdict=row.word,
        blame=row.blame or "",
        operators=() if culprit is None else culprit.overloads,
        dtypes=(),
        signature=signature_of(row),
        nodes=0,
        checks=0,
        seconds=0.0,
        complete=False,
        short=False,
        verified=False,
        script="",
        status=row.status,
        culprit="" if culprit is None else culprit.op,
        origin="" if culprit is None else culprit.label,
        special_inputs=row.verdict == "exceptional",
    )


def operators_at_fault(summary: Summary) -> tuple[str, ...]:
    """The operator that a failure's message is about, else all operators of the reduced graph."""
    named = operator_of_message(summary.signature) if summary.verdict == "failed" else ""
    return (named,) if named else summary.operators


def damage_of(verdict: str, status: str, *, special: bool) -> Damage:
    """What a user gets. `special`: an input holds NaN or infinity, or it is not known.

    `unsupported` is of an upgrade: the new version refuses what the old one runs.

    NaN from finite numbers is a wrong value like others: the same formula often gives both.
    """
    if verdict in ("failed", "reference_failed", "unsupported"):
        return "hang" if status == "timeout" else "crash" if status in ("crash", "oom") else "failure"
    if verdict == "structural":
        return "shape"
    if verdict == "exceptional":
        return "special values" if special else "values"
    return "precision" if verdict == "reduced_precision" else "values"


@cache
def front_end_of(platform: PlatformName) -> str:
    """The front end that translates programs for the platform (`protocol.Translated`); empty for none that is known."""
    backend = registered(platform.device_mode)
    return backend.front_end(platform.options) if isinstance(backend, Translated) else ""


def reads_onnx(platform: PlatformName) -> bool:
    """Whether the platform runs what `torch.onnx.export` makes of a program."""
    return front_end_of(platform) == EXPORTER


@cache
def _compiled_as(device_mode: str) -> str:
    """The platform whose compiler generates the code of this one."""
    backend = registered(device_mode)
    return (backend.compiled_as if isinstance(backend, SharesCompiler) else "") or device_mode


def _where(platform: PlatformName, blame: str, verdict: str, stage: str) -> str:
    if blame == "reference" or verdict == "reference_failed":
        return REFERENCE
    if reads_onnx(platform) and (stage in EXPORT_STAGES or stage == "unknown"):
        return EXPORTER
    return _compiled_as(platform.device_mode)


def _key(
    where: str, damage: Damage, operators: Sequence[str], dtypes: str, policy: str, signature: str
) -> CauseKey:  # fmt: skip
    if policy:
        return CauseKey(where, "precision" if damage == "precision" else "values", (), "", policy)
    functions = functions_of(operators)
    if damage == "failure":
        rule = torchax_rule(signature)
        if rule and front_end_of(recorded(where)) in _ARE_TORCHAX:
            return CauseKey(TORCHAX, damage, (), "", message_without_operators(signature, ()), "", rule)
        head = operator_of_message(signature)
        named = (head,) if head else tuple(operators)
        text = message_without_operators(signature, functions_of((*named, *operators)))
        text = without_runtime_operator(text) if _are_convolutions(named) else text
        return CauseKey(where, damage, _sharing(text, signature, named), "", text)
    if damage in ("crash", "hang"):
        # What a process prints before it ends depends on its memory.
        return CauseKey(where, damage, functions)
    if damage == "shape":
        change = change_of_structure(signature)
        alike = change == EMPTY_IS_SCALAR or " becomes " in change
        return CauseKey(where, damage, () if alike else _families(operators) if change else functions, "", change)
    return CauseKey(where, damage, functions, dtypes)


def _sharing(text: str, signature: str, operators: Sequence[str]) -> tuple[str, ...]:
    """The operators as far as they tell failures with this text apart.

    A message on a dtype is one cause for all operators. A message on a lacking operator is one for each. Others are
    one for a family whose operators share a translation.
    """
    functions = functions_of(operators)
    rule = rule_of("", signature)
    if not text or (rule is not None and rule.cause == "unsupported_operator"):
        return functions
    if rule is not None and rule.cause == "dtype_refused":
        return ()
    return _families(operators)


def _families(operators: Sequence[str]) -> tuple[str, ...]:
    """What the operators share: a translation of twins, or that of their families; else the functions."""
    twin = _twin_of(operators)
    if twin:
        return (f"like {twin}",)
    families = {traits(op).family for op in operators}
    shared = families <= _SHARE_TRANSLATIONS
    return tuple(sorted(f"family {name}" for name in families)) if shared else functions_of(operators)


def _twin_of(operators: Sequence[str]) -> str:
    """The function that stands for those of which all operators are twins, or ""."""
    twins = {_TWINS.get(name, "") for name in functions_of(operators)}
    return twins.pop() if len(twins) == 1 else ""


def _are_convolutions(operators: Sequence[str]) -> bool:
    return all(_CONVOLUTION.fullmatch(name) for name in functions_of(operators))


def _class_of(dtypes: Sequence[str]) -> str:
    """The class of dtypes whose kernels differ: complex before half before float before integer before bool."""
    for name, members in _CLASSES:
        if any(dtype in members for dtype in dtypes):
            return name
    return ""


_CLASSES: Final = (
    ("complex", ("complex32", "complex64", "complex128")),
    ("half", ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")),
    ("float", ("float32", "float64")),
    ("integer", ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")),
    ("bool", ("bool",)),
)
