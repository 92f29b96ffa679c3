"""Groups the rows of a report by root cause where nothing was reduced."""

from __future__ import annotations

from collections.abc import Iterable

from mindgap.findings.causes.cause import Cause
from mindgap.findings.causes.clusters import ReducedGroup, cause_of_cluster, clusters_of, severity_order
from mindgap.findings.causes.key import summary_of_row
from mindgap.results.rows import Row


def causes_of_rows(rows: Iterable[Row]) -> tuple[tuple[Cause, tuple[Row, ...]], ...]:
    """The causes of findings that were not reduced, worst first, each with its rows. Other rows are left out.

    `findings` of these causes have no script. Their ids are those of `cause_key_of_row`, unless findings of several
    platforms or operators belong together.
    """
    of: dict[int, Row] = {}
    groups: list[ReducedGroup] = []
    for row in rows:
        if row.finding:
            groups.append(ReducedGroup(summary_of_row(row), 1, (row.model,)))
            of[id(groups[-1])] = row
    found = [
        (cause_of_cluster(key, cluster), tuple(of[id(group)] for group in cluster))
        for key, cluster in clusters_of(groups).items()
    ]
    return tuple(sorted(found, key=lambda pair: severity_order(pair[0])))
