"""Captures `torch.cond`, `while_loop`, `scan` and `map` along the path that the arguments take.

The program runs once for real, and each decision is noted: the branch of a `cond`, the number of iterations of a
`while_loop`. In the graph there is the branch that was taken, and each iteration after the other.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from mindgap.aten.torch_private.higher_order import replaced_higher_order_operators
from mindgap.models.capture.errors import CaptureError
from mindgap.models.capture.origin import current_line
from mindgap.models.capture.program import ProgramWithin

#: Iterations of one loop that a graph holds, at most.
_ITERATIONS: Final = 1000
_SHOWN: Final = 4


class ControlFlowFound(CaptureError):
    """A program that is recorded without its decisions calls `cond` or `while_loop`."""


@dataclass(frozen=True)
class Decision:
    """What a value decided. `operator`: `cond` or `while_loop`; `count`: iterations, or 1 for the branch of true, 0 for
    that of false; `line`: of the user's code."""

    operator: str
    count: int
    line: str

    @property
    def words(self) -> str:
        """Says what is in the graph."""
        at = f" at line {self.line}" if self.line else ""
        if self.operator == "cond":
            return f"the {'true' if self.count else 'false'} branch of torch.cond{at}"
        return f"{self.count} iteration{'' if self.count == 1 else 's'} of while_loop{at}"


@dataclass
class _Operators:
    """Replaces the operators. `known`: the decisions to follow; None: each value decides, and is noted in `noted`."""

    known: Iterator[Decision] | None
    noted: list[Decision] = field(default_factory=list[Decision])

    def replacement(self, name: str) -> Callable[..., Any] | None:
        return {"cond": self.cond, "while_loop": self.while_loop, "scan": _scan, "map_impl": _map}.get(name)

    def _next(self, operator: str) -> int:
        assert self.known is not None, "asked where decisions are known"
        found = next(self.known, None)
        if found is None or found.operator != operator:
            raise ControlFlowFound(
                f"{operator} is called where the run on the given arguments called it not", current_line()
            )
        return found.count

    def cond(
        self, predicate: Any, true: Callable[..., Any], false: Callable[..., Any], operands: Sequence[Any] = ()
    ) -> Any:
        taken = int(bool(predicate)) if self.known is None else self._next("cond")
        if self.known is None:
            self.noted.append(Decision("cond", taken, current_line()))
        return (true if taken else false)(*operands)

    def while_loop(
        self, condition: Callable[..., Any], body: Callable[..., Any], carried: Sequence[Any], more: Sequence[Any] = ()
    ) -> Any:
        if self.known is not None:
            for _ in range(self._next("while_loop")):
                carried = body(*carried, *more)
            return tuple(carried)
        place, count = len(self.noted), 0
        line = current_line()
        self.noted.append(Decision("while_loop", 0, line))
        while bool(condition(*carried, *more)):
            if count == _ITERATIONS:
                raise CaptureError(f"while_loop runs more than {_ITERATIONS} times; capture its body (--inside)", line)
            carried, count = body(*carried, *more), count + 1
        self.noted[place] = Decision("while_loop", count, line)
        return tuple(carried)


def _scan(combine: Callable[..., Any], init: Sequence[Any], xs: Sequence[Any], more: Sequence[Any] = ()) -> Any:
    """Runs each step on the elements of the first dimension; stacks what steps give beside the state."""
    carried, collected = list(init), list[list[Any]]()
    for index in range(_steps("scan", xs)):
        found = list(combine(*carried, *(x.select(0, index) for x in xs), *more))
        carried = found[: len(carried)]
        collected.append(found[len(carried) :])
    return (*carried, *(torch.stack(list(each)) for each in zip(*collected, strict=True)))


def _map(function: Callable[..., Any], xs: Sequence[Any], more: Sequence[Any] = ()) -> Any:
    found = [function(*(x.select(0, index) for x in xs), *more) for index in range(_steps("map", xs))]
    if isinstance(found[0], torch.Tensor):
        return torch.stack(found)
    return tuple(torch.stack(list(each)) for each in zip(*found, strict=True))


def _steps(name: str, xs: Sequence[Any]) -> int:
    if not 0 < xs[0].shape[0] <= _ITERATIONS:
        raise CaptureError(f"{name} runs {xs[0].shape[0]} times; a graph holds 1 to {_ITERATIONS}", current_line())
    return xs[0].shape[0]


def along(decisions: Sequence[Decision]) -> AbstractContextManager[None]:
    """Follows decisions within. Raises `ControlFlowFound` for one that is not among them."""
    return replaced_higher_order_operators(_Operators(iter(decisions)).replacement)


def along_path_taken(program: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, str]:
    """Returns a program that takes the path of these arguments whatever it is given, and what of it is in a graph.

    Raises `CaptureError` if the program cannot be run on them.
    """
    operators = _Operators(None)
    given, named = copy.deepcopy((tuple(args), dict(kwargs)))
    if any(isinstance(each, torch.Tensor) and each.is_meta for each in (*given, *named.values())):
        raise CaptureError("values decide its path (torch.cond, while_loop), and its arguments have none (device meta)")
    once = copy.deepcopy(program) if isinstance(program, torch.nn.Module) else program
    with torch.no_grad(), replaced_higher_order_operators(operators.replacement):
        try:
            once(*given, **named)
        except CaptureError:
            raise
        except Exception as error:
            raise CaptureError(f"the program raised {type(error).__name__}: {str(error)[:200]}") from error
    decisions = tuple(operators.noted)
    words = list(dict.fromkeys(each.words for each in decisions))
    more = f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
    text = f"the graph holds {', '.join(words[:_SHOWN])}{more}, which these arguments take"
    if isinstance(program, torch.nn.Module):
        return ProgramWithin(program, functools.partial(along, decisions)), text

    @functools.wraps(program)
    def taken(*given: Any, **named: Any) -> Any:
        with along(decisions):
            return program(*given, **named)

    return taken, text


@contextlib.contextmanager
def noticed() -> Generator[None]:
    """Raises `ControlFlowFound` within where a value decides."""
    with along(()):
        yield
