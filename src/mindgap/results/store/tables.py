"""Defines the tables of a store: columns and keys.

Every row also carries when it was written and by whom (`_written`, `_writer`, `_seq`), which the writer fills in:
of several rows with one key, the last written is the one that a query sees.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false
# (pyarrow has no types)

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

#: Raised with every change to a schema below. A store holds rows of one version. A table that is added raises nothing:
#: an older store has no rows of it, and an older mindgap does not ask for them.
VERSION: Final = 2
#: The version in the footer of a segment. It is part of the format, and no module's name.
VERSION_KEY: Final = "mindgap.store"

_TEXT: Final = pa.string()
#: JSON text, for what has no columns.
_JSON: Final = pa.string()
_NAMES: Final = pa.list_(_TEXT)
_INTEGERS: Final = pa.list_(pa.int64())
_NUMBERS: Final = pa.list_(pa.float64())
_WORDS: Final = pa.map_(_TEXT, _TEXT)
_BY_NAME: Final = pa.map_(_TEXT, pa.float64())
_SECONDS: Final = _BY_NAME
_COUNTS: Final = pa.map_(_TEXT, pa.int64())
_PASSES: Final = pa.map_(_TEXT, pa.bool_())
_MOMENT: Final = pa.timestamp("us", tz="UTC")

#: A digested output, its sketch flattened. Counts and sample are `mindgap.graph.compare.digest.Sketch`'s.
_OUTPUT: Final = pa.struct(
    [
        ("dtype", _TEXT), ("shape", pa.list_(pa.int64())), ("digest", _TEXT),
        ("nan", pa.int64()), ("pos_inf", pa.int64()), ("neg_inf", pa.int64()), ("zero", pa.int64()),
        ("minimum", pa.float64()), ("maximum", pa.float64()), ("mean", pa.float64()), ("norm", pa.float64()),
        ("sample", pa.list_(pa.float64())),
    ]
)  # fmt: skip
#: What a platform lacks, and how many cases were not run there for it.
_LACKS: Final = pa.struct([("platform", _TEXT), ("reason", _TEXT), ("count", pa.int64())])
#: A node that a difference reaches, and what it does to it.
_REACHED: Final = pa.struct([("node", pa.int64()), ("op", _TEXT), ("role", _TEXT)])
#: An operator judged on weaker evidence: `mindgap.graph.compare.verdict.Weakness`.
_WEAKNESS: Final = pa.struct([("node", pa.int64()), ("op", _TEXT), ("missing", _TEXT), ("reason", _TEXT)])
#: `mindgap.graph.compare.verdict.Contradiction`.
_CONTRADICTION: Final = pa.struct(
    [
        ("output", pa.int64()), ("of", pa.list_(pa.int64())), ("op", _TEXT), ("count", pa.int64()),
        ("elements", pa.int64()), ("example", _TEXT),
    ]
)  # fmt: skip
#: `mindgap.graph.compare.verdict.OtherDecision`.
_DECISION: Final = pa.struct(
    [
        ("output", pa.int64()), ("kind", _TEXT), ("taken", _TEXT), ("came", _TEXT), ("line", _TEXT), ("text", _TEXT),
        ("time", pa.int64()), ("stable", pa.bool_()),
    ]
)  # fmt: skip
#: A fault of a row: `mindgap.graph.compare.verdict.Fault` without example and script.
_FAULT: Final = pa.struct(
    [
        ("verdict", _TEXT), ("blame", _TEXT), ("culprit_node", pa.int64()), ("culprit_op", _TEXT),
        ("culprit_label", _TEXT), ("nodes", pa.list_(pa.int64())), ("detail", _TEXT),
    ]
)  # fmt: skip

#: Metrics with a column of their own; the others are in the JSON of `metrics`.
METRICS: Final[dict[str, pa.DataType]] = {
    "relative_error": pa.float64(),
    "max_abs": pa.float64(),
    "max_rel": pa.float64(),
    "max_ulp": pa.uint64(),
    "remaining_precision": pa.int64(),
    "cosine": pa.float64(),
    "mad": pa.float64(),
    "error_ratio": pa.float64(),
    "nan_mismatch": pa.int64(),
    "inf_mismatch": pa.int64(),
    "signed_zero_mismatch": pa.int64(),
    "top1_flips": pa.int64(),
    "top5_flips": pa.int64(),
    "n": pa.int64(),
    "n_differing": pa.int64(),
    "outputs": pa.int64(),
    "outputs_differing": pa.int64(),
    "worst_output": pa.int64(),
}

#: Filled in by the writer. The rank of rows with one key is by these three, in this order.
STAMP: Final[dict[str, pa.DataType]] = {"_written": pa.int64(), "_writer": _TEXT, "_seq": pa.int64()}


@dataclass(frozen=True, slots=True)
class TableSchema:
    """The columns of a table. `key`: the columns, never null, that identify what a row is about."""

    name: str
    key: tuple[str, ...]
    schema: pa.Schema

    @property
    def columns(self) -> frozenset[str]:
        """The columns of a row, without the stamp."""
        return frozenset(self.schema.names) - STAMP.keys()


def _table(name: str, key: str, columns: dict[str, pa.DataType]) -> TableSchema:
    keys = tuple(key.split())
    fields = [pa.field(column, kind, nullable=column not in keys) for column, kind in {**columns, **STAMP}.items()]
    metadata = {VERSION_KEY: str(VERSION), "mindgap.table": name}
    return TableSchema(name, keys, pa.schema(fields, metadata))


#: In the order in which a writer publishes them: what a row refers to is there before it.
TABLES: Final[dict[str, TableSchema]] = {
    table.name: table
    for table in (
        # `seconds` is null while a run goes on, and for good where it was killed.
        _table(
            "runs", "run",
            {"run": _TEXT, "kind": _TEXT, "created": _MOMENT, "version": _TEXT, "reference": _TEXT, "settings": _JSON,
             "seconds": pa.float64()},
        ),
        # As a run found them. `fingerprint` is empty for what has run nothing (yet).
        _table(
            "platforms", "run platform fingerprint",
            {"run": _TEXT, "platform": _TEXT, "fingerprint": _TEXT, "position": pa.int32(), "backend": _TEXT,
             "available": pa.bool_(), "reason": _TEXT, "hardware": _TEXT, "versions": _WORDS, "options": _WORDS,
             "description": _JSON},
        ),
        # `variant`: how it is made from others, where its bytes are not kept. `tensors`: keys of what it needs.
        _table(
            "graphs", "graph",
            {"graph": _TEXT, "structure": _TEXT, "name": _TEXT, "source": _TEXT, "nodes": pa.int64(),
             "operators": _NAMES, "variant": _JSON, "tensors": _NAMES},
        ),
        # What became of a program in a catalogue. `pass`: forward, backward, sgd, adamw. `graph`: also of a duplicate,
        # whose bytes are not kept: those of `holder`, of the same `structure`, are. `structure_*`: other definitions.
        _table(
            "captures", "source pass",
            {"source": _TEXT, "pass": _TEXT, "asked": _TEXT, "scheme": _TEXT, "name": _TEXT, "status": _TEXT,
             "proven": pa.bool_(), "reason": _TEXT, "signature": _TEXT, "graph": _TEXT, "holder": _TEXT,
             "structure": _TEXT, "structure_operators": _TEXT, "structure_shapes": _TEXT, "nodes": pa.int64(),
             "parameters": pa.int64(), "operators": _NAMES, "cpu_seconds": pa.float64(), "peak_bytes": pa.int64(),
             "versions": _WORDS},
        ),
        # A source that a catalogue is done with, all of its programs, in these passes.
        _table("asked", "source", {"source": _TEXT, "passes": _NAMES, "programs": pa.int64()}),
        # The answer of a platform as it was (its `fingerprint`) to calls of one operator, of which `count` were tried.
        # `answer`: runs, decomposed, refuses, fails; `reason` and `signature` in the platform's words.
        _table(
            "support", "fingerprint op dtype layout",
            {"fingerprint": _TEXT, "platform": _TEXT, "op": _TEXT, "dtype": _TEXT, "layout": _TEXT, "answer": _TEXT,
             "status": _TEXT, "reason": _TEXT, "signature": _TEXT, "count": pa.int64()},
        ),
        # How what a platform computes for a call compares with a reference (`mindgap_surveys.support.agreement`).
        # `word` is the verdict, or why there is none. A separate table, as `weaknesses` is.
        _table(
            "agreement", "fingerprint reference op dtype layout",
            {"fingerprint": _TEXT, "reference": _TEXT, "platform": _TEXT, "op": _TEXT, "dtype": _TEXT, "layout": _TEXT,
             "word": _TEXT, "blame": _TEXT, "culprit": _TEXT, "detail": _TEXT, "relative_error": pa.float64(),
             "max_abs": pa.float64()},
        ),
        # What a run calls a graph: two models of one run may be the same graph.
        _table(
            "models", "run model",
            {"run": _TEXT, "model": _TEXT, "position": pa.int32(), "graph": _TEXT, "nodes": pa.int64(),
             "operators": pa.int64(), "inputs": _NAMES, "outputs": _NAMES, "timings": _SECONDS},
        ),
        _table(
            "refused", "run source position",
            {"run": _TEXT, "source": _TEXT, "position": pa.int32(), "reason": _TEXT, "broken": _TEXT},
        ),
        _table(
            "outcomes", "run model graph platform",
            {"run": _TEXT, "model": _TEXT, "graph": _TEXT, "platform": _TEXT, "fingerprint": _TEXT, "status": _TEXT,
             "op": _TEXT, "message": _TEXT, "signature": _TEXT, "outputs": pa.list_(_OUTPUT), "timings": _SECONDS},
        ),
        # What a delegate of the platform ran in an outcome (`mindgap.platforms.delegation`), where the platform reports
        # it. A separate table, as `weaknesses` is.
        _table(
            "delegations", "run model graph platform",
            {"run": _TEXT, "model": _TEXT, "graph": _TEXT, "platform": _TEXT, "delegate": _TEXT, "ran": _COUNTS,
             "gave_back": _COUNTS, "otherwise": _TEXT, "parts": pa.int64()},
        ),
        # What the program of a row gave by the platform's own export (`results.rows.OwnPath`), where it was taken that
        # way. A separate table, as `weaknesses` is.
        _table(
            "own_paths", "run model graph platform reference",
            {"run": _TEXT, "model": _TEXT, "graph": _TEXT, "platform": _TEXT, "reference": _TEXT, "status": _TEXT,
             "way": _TEXT, "detail": _TEXT, "asked": _NAMES, "training": _NAMES, "seconds": pa.float64()},
        ),
        # Why a row, its own path and its faults (in their order) are as they are (`graph.compare.reason`): lists of
        # reasons by `row`, `own_path` and `faults`. A separate table, as `weaknesses` is; no entry of a row without.
        _table(
            "reasons", "run model graph platform reference",
            {"run": _TEXT, "model": _TEXT, "graph": _TEXT, "platform": _TEXT, "reference": _TEXT, "reasons": _JSON},
        ),
        # `word` is the verdict, or why there is none. `origin`: the run that measured it, where another took it over.
        _table(
            "verdicts", "run model graph platform reference",
            {"run": _TEXT, "model": _TEXT, "graph": _TEXT, "platform": _TEXT, "reference": _TEXT, "status": _TEXT,
             "verdict": _TEXT, "word": _TEXT, "blame": _TEXT, "culprit_node": pa.int64(), "culprit_op": _TEXT,
             "culprit_label": _TEXT, **METRICS, "metrics": _JSON, "profiles": _PASSES, "detail": _TEXT,
             "nodes": pa.list_(_REACHED), "judge_seconds": pa.float64(), "broken": _TEXT, "origin": _TEXT},
        ),
        # What a judged row of `verdicts` had to do without. A separate table, since stores without it stay readable.
        _table(
            "weaknesses", "run model graph platform reference",
            {"run": _TEXT, "model": _TEXT, "graph": _TEXT, "platform": _TEXT, "reference": _TEXT,
             "weaknesses": pa.list_(_WEAKNESS)},
        ),
        # Outputs of a judged row of `verdicts` that do not fit each other; no entry of a row without.
        _table(
            "contradictions", "run model graph platform reference",
            {"run": _TEXT, "model": _TEXT, "graph": _TEXT, "platform": _TEXT, "reference": _TEXT,
             "contradictions": pa.list_(_CONTRADICTION)},
        ),
        # Decisions by values that came out otherwise in a judged row of `verdicts`, or may; no entry of a row without.
        _table(
            "decisions", "run model graph platform reference",
            {"run": _TEXT, "model": _TEXT, "graph": _TEXT, "platform": _TEXT, "reference": _TEXT,
             "decisions": pa.list_(_DECISION)},
        ),
        # The independent faults of a judged row of `verdicts`, its culprit's first; none of a calm row.
        _table(
            "faults", "run model graph platform reference",
            {"run": _TEXT, "model": _TEXT, "graph": _TEXT, "platform": _TEXT, "reference": _TEXT,
             "faults": pa.list_(_FAULT)},
        ),
        # Some hundred cases of a campaign. `seconds` is null until all rows of the block are written. `features`: what
        # it covers that no block before it did; `given`: by platform that does not get every case, what had not been
        # given to it before; `left_out`: how many cases a platform's budget had no time for; `refused`: those that a
        # platform was not to run, as it is known to lack something; `found`: signatures of failures, culprits.
        _table(
            "blocks", "run block",
            {"run": _TEXT, "block": pa.int64(), "shard": _TEXT, "cases": pa.int64(), "features": _NAMES,
             "given": pa.map_(_TEXT, _NAMES), "left_out": _COUNTS, "refused": pa.list_(_LACKS), "found": _NAMES,
             "seconds": pa.float64()},
        ),
        # What `mindgap invariance` and `mindgap repeats` found: `results.answer_rows.AnswerRow`.
        _table(
            "answers", "run subject platform question label",
            {"run": _TEXT, "subject": _TEXT, "platform": _TEXT, "question": _TEXT, "label": _TEXT, "verdict": _TEXT,
             "state": _TEXT, "detail": _TEXT, "numbers": _BY_NAME},
        ),
        # Processor seconds that a session of a campaign has taken, by what they were spent on; `platform` is empty for
        # what no worker spent. The purpose `operating system` is what that counts for all processes together.
        _table(
            "expenses", "run session purpose platform",
            {"run": _TEXT, "session": _TEXT, "purpose": _TEXT, "platform": _TEXT, "seconds": pa.float64()},
        ),
        # A study of a model's task: the question (`results.predictions`). `seconds` is null while the run goes on.
        _table(
            "tasks", "run",
            {"run": _TEXT, "created": _MOMENT, "version": _TEXT, "model": _TEXT, "dataset": _TEXT, "task": _TEXT,
             "reference": _TEXT, "classes": _NAMES, "settings": _JSON, "seconds": pa.float64()},
        ),
        # `problem`: why the sample is left out; labels and boxes are empty then.
        _table(
            "truths", "run sample",
            {"run": _TEXT, "sample": pa.int64(), "labels": _INTEGERS, "boxes": _NUMBERS, "problem": _TEXT},
        ),
        # `versions`: those of the platform, as JSON; a resumed run takes up rows of the versions that are installed.
        _table(
            "predictions", "run form platform sample",
            {"run": _TEXT, "form": _TEXT, "platform": _TEXT, "sample": pa.int64(), "versions": _JSON,
             "labels": _INTEGERS, "margin": pa.float64(), "confidence": pa.float64(), "loss": pa.float64(),
             "deviation": pa.float64(), "boxes": _NUMBERS, "scores": _NUMBERS},
        ),
        # `created`: as in `tasks`, whose row has that of the last session. Earlier ones may be of other versions.
        _table(
            "near_ties", "run created form sample",
            {"run": _TEXT, "created": _MOMENT, "form": _TEXT, "sample": pa.int64(), "best": pa.int64(),
             "rival": pa.int64(), "margin": pa.float64(), "margin_limit": pa.float64(), "what": _TEXT},
        ),
        _table(
            "flips", "run created form platform sample position",
            {"run": _TEXT, "created": _MOMENT, "form": _TEXT, "platform": _TEXT, "sample": pa.int64(),
             "position": pa.int64(), "truth": pa.int64(), "before": pa.int64(), "after": pa.int64(), "verdict": _TEXT,
             "margin": pa.float64(), "margin_limit": pa.float64(), "shows": _TEXT, "origin": _TEXT, "note": _TEXT},
        ),
    )
}  # fmt: skip
