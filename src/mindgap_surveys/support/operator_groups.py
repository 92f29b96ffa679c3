"""Groups operators by what they are for, as "Mind the Gap" groups what accelerators lack (arXiv 2511.11601)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from mindgap.platforms.name import PlatformName
from mindgap.results.support_key import packet_of
from mindgap_surveys.support.matrix import RUNS, Matrix
from mindgap_surveys.support.static_support import StaticList

OTHER: Final = "other"
#: By the name of the packet, the first that matches. Products of matrices are `other`: every platform has them.
_GROUPS: Final[Mapping[str, re.Pattern[str]]] = {
    "quantised": re.compile(
        r"quantiz|dyn_quant|fbgemm|fake_quant|^q_|q_per_channel|int_repr|_int[48]?(pack|_mm)|scaled_mm|choose_qparams"
    ),
    "sparse": re.compile(
        r"sparse|_coo|_cs[rc]\b|_bs[rc]\b|_nnz|coalesce|_(c|r)ol_indices|segment_reduce|spdiags|sspaddmm"
    ),
    "attention": re.compile(r"attention|multi_head|transformer_encoder|flex_"),
    "embeddings": re.compile(r"embedding(?!_loss)"),
    "fused training": re.compile(r"_fused_|fused_(sgd|adam|adagrad|rms|moving)|_foreach_|amp_"),
    "linear algebra": re.compile(
        r"linalg_|cholesky|geqrf|ormqr|orgqr|lu_(solve|unpack|with_info)|triangular_solve|lstsq|matrix_exp|slogdet|logdet|^det$"
        r"|^svd|_svd|^qr$|eigh?\b|pinverse|^inverse$|lobpcg|matrix_power|matrix_rank|householder"
    ),
}
GROUPS: Final = (*_GROUPS, OTHER)


def group_of(op: str) -> str:
    """Returns the group of an overload or packet: `aten.linalg_qr.default` -> `linear algebra`."""
    packet = op.split(".")[1]
    return next((name for name, pattern in _GROUPS.items() if pattern.search(packet)), OTHER)


@dataclass(frozen=True, slots=True)
class GroupShare:
    """How many packets of a group something has. `lacks`: the others, sorted."""

    group: str
    has: int
    total: int
    lacks: tuple[str, ...]


def measured_shares(matrix: Matrix, platform: PlatformName) -> list[GroupShare]:
    """Counts packets of which a key runs on a platform, all of them first and then by group."""
    cells = matrix.cells[platform]
    return _shares(matrix.operators, lambda op: any(cells[key].word in RUNS for key in matrix.operators[op]))


def untried_packets(matrix: Matrix, platform: PlatformName) -> int:
    """Counts packets of which nothing runs and some wanted key was not tried: whether they run is not known.

    Keys that were left out on purpose do not count, unless nothing else of the packet was tried either.
    """
    cells = matrix.cells[platform]
    packets: dict[str, set[str]] = {}
    for op, keys in matrix.operators.items():
        words = (cells[key].word for key in keys if cells[key].word != "untried" or key not in matrix.left_out)
        packets.setdefault(packet_of(op), set()).update(words)
    return sum(not words & RUNS and ("untried" in words or not words) for words in packets.values())


def listed_shares(of: StaticList, ops: Iterable[str]) -> list[GroupShare]:
    """Counts packets that a list names, or that are made of others on every device."""
    return _shares(ops, lambda op: of.word(op) in ("kernel", "composite"))


def _shares(ops: Iterable[str], has: Callable[[str], bool]) -> list[GroupShare]:
    packets: dict[str, bool] = {}
    for op in ops:
        packets[packet_of(op)] = packets.get(packet_of(op), False) or has(op)
    groups: dict[str, list[str]] = {"all": sorted(packets), **{group: [] for group in GROUPS}}
    for packet in groups["all"]:
        groups[group_of(packet)].append(packet)
    return [
        GroupShare(group, sum(map(packets.__getitem__, members)), len(members),
                   tuple(packet for packet in members if not packets[packet]))
        for group, members in groups.items() if members
    ]  # fmt: skip
