"""A campaign in a process of its own, to be killed: `driver.py begin|resume|add DIR COUNT PLATFORM…`."""

from __future__ import annotations

import sys
from pathlib import Path

from small_source import Small, plan_text

from mindgap.graph import MindgapError
from mindgap_campaign.campaign.plan import parse_plan, platform_plans
from mindgap_campaign.campaign.session import RunOptions, add_platforms, begin, resume_campaign
from mindgap_campaign.campaign.state.directory import open_directory


def main() -> int:
    what, directory, count, reference, *platforms = sys.argv[1:]
    path = Path(directory)
    try:
        if what == "resume":
            open_directory(path)
    except MindgapError:
        # Killed before there was anything to resume.
        what = "begin"
    if what == "add" and not open_directory(path).added:
        add_platforms(path, platform_plans(platforms), Small(), options=RunOptions(jobs=2))
    elif what == "begin":
        text = plan_text(int(count), dict.fromkeys(platforms, ""), top=f'reference = "{reference}"')
        begin(parse_plan(text, "p"), text, path, Small(), options=RunOptions(jobs=2))
    else:
        resume_campaign(path, Small(), options=RunOptions(jobs=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
