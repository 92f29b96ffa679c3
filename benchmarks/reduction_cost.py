r"""Measures what the reduction of a campaign's findings costs.

    python benchmarks/reduction_cost.py CAMPAIGN [--most N] [-p PLATFORM]

Each group of findings is reduced, one at a time, with the stage at fault and the script. The processor time counts all
processes: the reducer, the workers of platforms, and the scripts. Targets: a median of 3 operators at most, and 20
processor seconds at most for operators that run in milliseconds.

Two checkouts reduce the findings of one campaign; the path is absolute:

    python benchmarks/paired.py ../OLD . --figure '^all: .*median ([\d.]+) CPU s' \
        --figure 'CPU s, ([\d.]+) operators' -- benchmarks/reduction_cost.py CAMPAIGN --most 20
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections import defaultdict
from pathlib import Path

from mindgap.findings.reduction import ReductionLimits
from mindgap_campaign.campaign.results.reduce import GroupReduction, reduce_groups
from mindgap_campaign.campaign.state.directory import open_directory


def show(each: GroupReduction) -> None:
    group, summary = each.group, each.summary
    came_to = each.reason[:60] if summary is None else f"{len(summary.operators)} operators, {summary.checks} checks"
    print(f"{each.cpu_seconds:>7.1f}  {group.platform:<34}{group.culprit[:44]:<46}{came_to}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", metavar="CAMPAIGN", type=Path)
    parser.add_argument("--most", type=int)
    parser.add_argument("-p", "--platform", default="")
    arguments = parser.parse_args()
    print(f"{'CPU s':>7}  {'platform':<34}{'culprit':<46}came to")
    with tempfile.TemporaryDirectory() as folder:
        found = reduce_groups(
            open_directory(arguments.directory), Path(folder), ReductionLimits(), platform=arguments.platform,
            most=arguments.most, progress=show,
        )  # fmt: skip
    by_platform: defaultdict[str, list[GroupReduction]] = defaultdict(list)
    for each in found:
        if each.summary is not None:
            by_platform[each.group.platform].append(each)
            by_platform["all"].append(each)
    for platform, reduced in by_platform.items():
        seconds = statistics.median(each.cpu_seconds for each in reduced)
        operators = statistics.median(len(each.summary.operators) for each in reduced if each.summary is not None)
        print(f"{platform}: {len(reduced)} reduced; median {seconds:.1f} CPU s, {operators:g} operators")
    print(f"{len(found) - len(by_platform['all'])} of {len(found)} groups not reduced")


if __name__ == "__main__":
    main()
