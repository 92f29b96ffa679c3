"""Why a row, a fault, an outcome or a program's own export is as it is: a kind, and typed fields.

Code decides by the kind. `mindgap.results.reason_words` makes text of it where a person reads it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

#: Of a program's own export, in the order in which advice is given:
#: - `custom_operator`: it calls a custom operator that the exporter does not know. `names`: the operator.
#: - `environment_question`: the program asks how it is run. `names`: each call, with module and line.
#: - `state_not_kept`: the export does not keep what a call of the program changes. `names`: the attributes.
#: - `no_conversion`: a front end has no rule for operators. `names`: these.
#: - `dynamic_size`: with dynamic dimensions it is wrong or fails.
#: - `fixed_value`: a value that was computed from an argument, or a branch taken for it, is a constant in it.
#: - `tensor_value`: an exporter refuses to read a number from a tensor.
#: - `tracer_warning`: `names`: what tracing warned of, with the line.
#: - `random`: the program draws random numbers. `names`: the lines.
#: - `training`: modules in training mode compute something else in evaluation mode. `names`: the modules.
#: - `inputs_by_order`: inputs of a file were matched by order. `names`: each pair.
#: - `unwritten_arguments`: the program writes to arguments in place, and what was exported does not. `names`: these.
#: - `sizes_not_compared`: the export with dynamic dimensions was not compared. `message`: why.
#: Of a row:
#: - `own_path`: its detail has what the program's own export, or the model file, gave.
#: - `by_export`: the platform does not run the captured graph: it is judged on the program's own export.
#: - `no_graph`: there is no captured graph to bound the difference with.
#: - `time_budget`, `interrupted`, `memory`, `host_lost`: why it was not run, or not judged.
#: - `no_judge`: the user left the judge out.
#: Of a fault:
#: - `failed_alone`: one of several failures of a row. `message`: the platform's, of its operators alone. `names`: its
#:   signature.
#: Of an outcome:
#: - `took_none`: the delegate took no operator of the graph; what ran it instead shows nothing of the delegate.
#: - `ran_elsewhere`: the device's package would run an operator on the processor.
#: - `computed_before`: the runtime computed the whole graph before the delegate got a node.
#: - `worker_ended`, `worker_killed`: its process ended by itself, or by SIGTERM or SIGKILL. `stage`: what it was doing.
#: - `not_opened`: the platform raised when it was opened.
ReasonKind = Literal[
    "custom_operator", "environment_question", "state_not_kept", "no_conversion", "dynamic_size", "fixed_value",
    "tensor_value", "tracer_warning", "random", "training", "inputs_by_order", "unwritten_arguments",
    "sizes_not_compared",
    "own_path", "by_export", "no_graph", "time_budget", "interrupted", "memory", "host_lost", "no_judge",
    "failed_alone",
    "took_none", "ran_elsewhere", "computed_before", "worker_ended", "worker_killed", "not_opened",
]  # fmt: skip
#: The refusals that say nothing of the operators of a delegate or device.
FallbackKind = Literal["took_none", "ran_elsewhere", "computed_before"]


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason. Fields that its kind does not use are empty.

    module, line: of the user's code. names: operators, arguments, modules or calls, by the kind. size: how far values
    are apart, of the largest magnitude. dtype: NumPy's name. stage: what a process was doing. message: what a
    framework or the operating system printed.
    """

    kind: ReasonKind
    module: str = ""
    line: str = ""
    names: tuple[str, ...] = ()
    size: float | None = None
    dtype: str = ""
    platform: str = ""
    stage: str = ""
    message: str = ""


def has(reasons: Iterable[Reason], *kinds: ReasonKind) -> bool:
    """Returns whether one of the reasons is of one of these kinds."""
    return any(each.kind in kinds for each in reasons)
