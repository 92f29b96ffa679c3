"""Causes of failures, told from what platforms really said."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import duckdb
import pytest
import torch

from mindgap.results.failure_rules import CAUSES, TYPES, failure_rules, rule_of
from mindgap.run.failure_signature import signature
from mindgap_studies.gap.failures import classified

KNOWN: dict[str, Any] = tomllib.loads(Path(__file__).with_name("signatures.toml").read_text(encoding="utf-8"))
CASES = [
    ("runtime_error", text, text, cause, group["type"])
    for cause, group in KNOWN.items()
    if cause != "more"
    for text in group["signatures"]
] + [
    (case["status"], case["signature"], case.get("message", case["signature"]), case["cause"], case["type"])
    for case in KNOWN["more"]
]


def classify(status: str, text: str, message: str | None = None) -> tuple[str, str]:
    sql = (
        f"SELECT {classified('cause')}, {classified('type')} "
        "FROM (SELECT $status AS status, $signature AS signature, $message AS message)"
    )
    given = {"status": status, "signature": text, "message": text if message is None else message}
    found = duckdb.execute(sql, given).fetchone()
    assert found is not None
    return found


@pytest.mark.parametrize(("status", "text", "message", "cause", "kind"), CASES)
def test_a_real_signature_has_its_cause(status: str, text: str, message: str, cause: str, kind: str) -> None:
    assert classify(status, text, message) == (cause, kind)
    rule = rule_of(status, text, message)
    found = ("other", "other") if rule is None else (rule.cause, rule.type)
    assert found == (cause, kind), "in Python as in the query"


def test_every_rule_has_a_real_signature_and_a_known_word() -> None:
    assert {rule.cause for rule in failure_rules()} | {"other"} == set(CAUSES)
    assert {rule.type for rule in failure_rules()} | {"other"} == set(TYPES)
    assert {cause for *_, cause, _ in CASES} == set(CAUSES)
    assert all(rule.status or rule.signature or rule.message for rule in failure_rules()), "a rule that fits everything"


def test_upper_and_lower_case_are_alike_and_quotes_are_safe() -> None:
    assert classify("runtime_error", "OUT OF MEMORY: it's gone") == ("memory", "other")


@pytest.mark.parametrize(
    ("call", "cause"),
    [
        (lambda: torch.zeros(3).gather(0, torch.tensor([5])), "index_out_of_bounds"),
        (lambda: torch.mm(torch.zeros(2, 3), torch.zeros(4, 5)), "shape_mismatch"),
        (lambda: torch.linalg.svd(torch.zeros(2, 2, dtype=torch.float16)), "dtype_refused"),
        (lambda: torch.zeros(1 << 46), "memory"),
        (lambda: torch.nn.functional.gelu(torch.zeros(2, 2).to_sparse()), "unsupported_operator"),
    ],
)
def test_the_pytorch_that_is_here_says_what_the_rules_know(call: Any, cause: str) -> None:
    with pytest.raises(Exception) as raised:
        call()
    assert classify("runtime_error", signature(f"{type(raised.value).__name__}: {raised.value}"))[0] == cause
