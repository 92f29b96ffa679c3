"""Adds the causes of reduced campaigns to a directory of findings, and writes its table.

    python benchmarks/findings/publish.py docs/findings [OUT…]

Each OUT is what `mindgap campaign reduce` wrote; without one only the table and what upstream knows are renewed. A
cause is listed if a short script of it showed the fault twice without mindgap, and if `left_out.toml` of the directory
does not name it. A cause that is listed already keeps its script. The table goes between the two marks in the
directory's README.md, and the causes into its causes.json. What upstream knows comes from its upstream.toml.
"""

from __future__ import annotations

import argparse
import re
import shutil
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

from mindgap.causes import FILE_NAME, Cause, ReducedGroup, causes_of, causes_text, read_causes
from mindgap.causes.ledger import Ledger
from mindgap.platforms.listing import package_versions
from mindgap.reduction.files import Summary

#: Where the packages of the machine lie that showed a fault.
_FOLDER = re.compile(r"(?:/[\w.+-]+)+/site-packages/")
_BEGIN, _END = "<!-- table: begin -->", "<!-- table: end -->"
_ENDINGS = {
    "values": "wrong", "special values": "nan", "shape": "shape", "precision": "precision", "failure": "fails",
    "crash": "crashes", "hang": "hangs",
}  # fmt: skip


def groups_of(causes: Iterable[Cause], folder: Path) -> list[ReducedGroup]:
    """The findings of causes, with scripts as absolute paths. The rows of a cause count once, with its first."""
    return [
        ReducedGroup(
            replace(finding, script=str((folder / finding.script).resolve())), cause.rows if index == 0 else 0, ()
        )
        for cause in causes
        for index, finding in enumerate(cause.findings)
    ]


def shown(cause: Cause, listed: Path) -> Summary | None:
    """The finding to show: one that is listed already, else the first that is short and verified."""
    good = [finding for finding in cause.findings if finding.short and finding.verified]
    old = [finding for finding in good if Path(finding.script).is_relative_to(listed)]
    return (old or good or [None])[0]


def published(cause: Cause, finding: Summary, listed: Path) -> Summary:
    """The finding with its script in the directory, under a name that says what it shows."""
    script = Path(finding.script)
    if not script.is_relative_to(listed):
        folder = re.sub(r"[^\w]+", "-", finding.platform.partition("@")[0])
        folder += "-onnx-frontend" if "frontend=onnx" in finding.platform else ""
        packets = "-".join(dict.fromkeys(op.split(".")[1].strip("_") for op in finding.operators[:3]))
        name = f"{packets}_{_ENDINGS[cause.damage]}"
        target, count = listed / folder / f"{name}.py", 1
        while target.exists():
            count += 1
            target = listed / folder / f"{name}_{count}.py"
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(script, target)
        script = target
    return replace(finding, script=str(script.relative_to(listed)))


def row_of(cause: Cause) -> str:
    """The cause as a line of the table."""
    finding = cause.findings[0]
    operators = ", ".join(f"`{op}`" for op in finding.operators)
    known = cause.upstream
    upstream = "not looked up" if known is None else "looked for, not found"
    if known is not None and known.link:
        upstream = f"[{'#'.join(re.findall(r'[^/]+/[^/]+(?=/(?:issues|pull))|[0-9]+$', known.link))}]({known.link})"
    platforms = ", ".join(f"`{name}`" for name in cause.platforms)
    cells = (
        cause.severity, cause.kind, cause.stage, "eager PyTorch" if cause.blame == "reference" else cause.blame,
        platforms, f"{operators} ({', '.join(finding.dtypes) or 'no inputs'})", str(cause.rows), upstream,
        f"[{Path(finding.script).name}]({finding.script})",
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def table_of(causes: Sequence[Cause]) -> str:
    head = "| severity | class | stage | side | platforms | operators (inputs) | rows | upstream | script |"
    return "\n".join([head, "|---|---|---|---|---|---|---|---|---|", *map(row_of, causes)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("listed", type=Path)
    parser.add_argument("found", type=Path, nargs="*")
    arguments = parser.parse_args()
    listed = arguments.listed.resolve()
    groups = groups_of(read_causes(listed / FILE_NAME), listed)
    for folder in arguments.found:
        groups += groups_of(read_causes(folder / FILE_NAME), folder)
    left_out = {each["id"] for each in tomllib.loads((listed / "left_out.toml").read_text()).get("cause", [])}
    causes: list[Cause] = []
    unverified = 0
    for cause in causes_of(groups):
        finding = shown(cause, listed)
        unverified += finding is None
        if finding is not None and cause.id not in left_out:
            causes.append(replace(cause, findings=(published(cause, finding, listed),)))
    ledger = Ledger.load(listed / "upstream.toml")
    review = ledger.review(causes, (), lambda platform: package_versions(platform, ledger.packages), date.today())
    causes = [replace(cause, state="") for cause in review.causes]
    (listed / FILE_NAME).write_text(_FOLDER.sub("site-packages/", causes_text(causes)))
    page = listed / "README.md"
    before, _, rest = page.read_text().partition(_BEGIN)
    after = rest.partition(_END)[2]
    page.write_text(f"{before}{_BEGIN}\n{table_of(causes)}\n{_END}{after}")
    known = sum(cause.upstream is not None and bool(cause.upstream.link) for cause in causes)
    print(f"{len(causes)} causes listed, {known} with an upstream link; {unverified} without a verified short script")
    for cause in causes:
        if cause.upstream is None:
            print(f"not looked up: {cause.id} {cause.title}")


if __name__ == "__main__":
    main()
