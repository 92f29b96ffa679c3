"""Decides which elements of a platform's outputs rounding cannot explain.

Comes in: a functional graph, its materialised inputs, and the outputs of a platform. Goes out: the elements that no
rounding explains, and the operators that were judged on weaker evidence. Knows nothing of platforms or workers.

Two shadows are computed. *Wide* (W) keeps everything in float64 from the rounded inputs on; *stepwise* (S)
computes each operator in float64 and rounds its result once to the dtype it declares. Replays are stepwise
runs with random errors of each operator's own size injected, after Monte Carlo arithmetic (Parker, 1997).
"""

from mindgap.aten.internal import InternalValues, internal_values
from mindgap.judge.oracle.decisions import OrderedRows, decision_slots, ordered_rows, positions
from mindgap.judge.oracle.evaluation.float64 import OracleError, OracleMemoryError
from mindgap.judge.oracle.examination import Examined, Expectation, examine, rounding_limit
from mindgap.judge.oracle.few_replays import examine_cheaply, examine_value_cheaply, is_calm
from mindgap.judge.oracle.oracle import FEW, MANY, Oracle
from mindgap.judge.oracle.single_operator import LocalExpectation, local_expectation

__all__ = [
    "FEW",
    "MANY",
    "Examined",
    "Expectation",
    "InternalValues",
    "LocalExpectation",
    "Oracle",
    "OracleError",
    "OracleMemoryError",
    "OrderedRows",
    "decision_slots",
    "examine",
    "examine_cheaply",
    "examine_value_cheaply",
    "internal_values",
    "is_calm",
    "local_expectation",
    "ordered_rows",
    "positions",
    "rounding_limit",
]
