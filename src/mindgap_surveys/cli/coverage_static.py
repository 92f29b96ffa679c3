"""Prints what PyTorch's sources and runtimes' packages list of operators (`mindgap coverage --static`)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from rich.text import Text

from mindgap.cli.tables import console, plain_table

if TYPE_CHECKING:
    from mindgap_surveys.support.matrix import Matrix
    from mindgap_surveys.support.static_support import Disagreement, StaticList


@dataclass(frozen=True, slots=True)
class MeasuredLists:
    """Lists next to a measurement. `absent`: lists that are not here, and why."""

    lists: Sequence[StaticList]
    absent: Mapping[str, str]
    disagreements: Sequence[Disagreement]


def print_lists(as_json: bool, out: TextIO) -> None:
    """Prints the entries of each list for the overloads that PyTorch declares, without those that write into an
    operand."""
    from mindgap.aten.torch_private.native_functions import declared_kernels

    lists, absent = _lists()
    ops = sorted(op for op in declared_kernels() if not op.endswith("out"))
    if as_json:
        objects = [
            {"list": each.name, "package": each.package, "unknown": each.unknown_otherwise,
             "words": {op: each.word(op) for op in ops}} for each in lists
        ]  # fmt: skip
        json.dump(objects, out, indent=1)
        out.write("\n")
        return
    _print(lists, absent, ops, out)


def measured_lists(matrix: Matrix) -> MeasuredLists:
    """Reads the lists, and finds where they are not what was measured."""
    from mindgap_surveys.support.static_support import disagreements

    lists, absent = _lists()
    return MeasuredLists(lists, absent, disagreements(matrix, lists))


def print_measured_lists(matrix: Matrix, found: MeasuredLists, out: TextIO) -> None:
    """Prints the entries of each list for the overloads of a matrix, and where they are not what was measured."""
    _print(found.lists, found.absent, [*matrix.operators], out)
    _print_disagreements(found.disagreements, out)


def _lists() -> tuple[list[StaticList], Mapping[str, str]]:
    from mindgap_surveys.support.static_support import device_lists, runtime_lists

    runtimes, absent = runtime_lists()
    return [*device_lists(), *runtimes], absent


def _print(lists: Sequence[StaticList], absent: Mapping[str, str], ops: Sequence[str], out: TextIO) -> None:
    """Prints how many of the overloads each list names, by group; and ONNX Runtime's kernels."""
    from mindgap_surveys.support.operator_groups import listed_shares
    from mindgap_surveys.support.static_support import onnxruntime_kernels

    page = console(out)
    shares = {each.name: listed_shares(each, ops) for each in lists}
    groups = [each.group for each in next(iter(shares.values()))]
    table = plain_table(
        "list", "kernel", "composite", "none", "unknown", "from",
        title=f"what packages list of {len(ops)} overloads; nothing was run",
    )  # fmt: skip
    packets = plain_table("list", *groups, title="of the packets of these overloads, by group", right=groups)
    for each in lists:
        table.add_row(each.name, *map(str, each.counts(ops).values()), each.package)
        packets.add_row(each.name, *(f"{share.has}/{share.total}" for share in shares[each.name]))
    page.print(table)
    page.print(packets)
    for each in lists:
        if each.unknown_otherwise:
            page.print(Text(f"{each.name}: what has no kernel here is unknown: {each.unknown_otherwise}"))
    for name, reason in absent.items():
        page.print(Text(f"{name}: no list: {reason}"))
    try:
        registries = onnxruntime_kernels()
    except ImportError:
        return
    for each in registries:
        page.print(Text(
            f"ONNX Runtime, {each.provider}: kernels for {len(each.kernels)} ONNX operators, {len(each.functions)} "
            f"more are made of others; it lacks {len(each.lacks)}: {', '.join(each.lacks) or 'none'}"
        ))  # fmt: skip


def _print_disagreements(found: Sequence[Disagreement], out: TextIO) -> None:
    """Prints where a list and the measurement of a platform say the opposite."""
    table = plain_table(
        "platform", "list", "listed, nothing runs", "not listed, runs", "examples",
        title="where lists and measurements disagree (overloads)",
    )  # fmt: skip
    for each in found:
        examples = ", ".join(each.listed[:3]) or ", ".join(each.unlisted[:3])
        table.add_row(each.platform, each.name, str(len(each.listed)), str(len(each.unlisted)), Text(examples))
    console(out).print(table)
