"""Measures pages in Chromium: from navigation to the first picture, and from a filter to its picture.

    python benchmarks/page_speed.py            # 10,000 causes, a report of 1,000 rows, a graph of 1,000 nodes
    python benchmarks/page_speed.py --rows 20000

Each page is opened five times. Times are medians in milliseconds, and the largest in brackets. An action counts as done
two frames after it. Target: the filtered index of 10,000 causes is drawn 2 s after the navigation began.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "mindgap"))

from mindgap.report import html_page
from mindgap.report.cause_page import cause_page, index_page
from report.browser import CHROMIUM, DRIVER, Browser
from report.report_sample import sample
from report.test_cause_page import many as many_causes, written
from report.test_page import many as many_rows

RUNS = 5
#: Milliseconds from the navigation to the end of loading, when the page's script has run.
LOADED = "const [n] = performance.getEntriesByType('navigation'); return n.loadEventEnd"
#: Does something and waits until it is drawn: two frames.
DRAWN = """
const done = arguments[0], start = performance.now();
{action};
requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - start)));
"""
SEARCH = (
    "const field = document.querySelector('input[name=text]'); field.value = '{text}';"
    "field.dispatchEvent(new Event('input', {{bubbles: true}}))"
)
SORT = "document.querySelector('table.live th:nth-child(2) button').click()"
ZOOM = "[...document.querySelectorAll('[data-step=fit]')].at(-1).click()"


def measured(browser: Browser, page: str, directory: Path, actions: dict[str, str]) -> dict[str, list[float]]:
    """The times of loading, of each action, and of loading with the first action, in milliseconds."""
    found: dict[str, list[float]] = {}
    for _ in range(RUNS):
        browser.open(page, directory)
        times = {"load": float(str(browser.run(LOADED)))}
        for name, action in actions.items():
            times[name] = float(browser.driver.execute_async_script(DRAWN.replace("{action}", action)))
        times[f"load + {next(iter(actions))}"] = times["load"] + times[next(iter(actions))]
        for name, value in times.items():
            found.setdefault(name, []).append(value)
    return found


def main() -> int:
    """Prints a table of times for each page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000, help="Causes in the index.")
    count = parser.parse_args().rows
    if not (CHROMIUM and DRIVER):
        print("no Chromium with chromedriver on this machine")
        return 2
    filtered = {"filter": SEARCH.format(text="99"), "filter back": SEARCH.format(text=""), "sort": SORT}
    report = many_rows(1000 // len(sample().rows))
    browser = Browser()
    try:
        with tempfile.TemporaryDirectory() as folder:
            directory = Path(folder)
            pages = {
                f"index of {count} causes": (index_page(many_causes(count)), filtered),
                f"report of {len(report.rows)} rows": (html_page(report), filtered),
                "cause with a graph of 1000 nodes": (cause_page(written(directory, 1000), directory), {"zoom": ZOOM}),
            }
            for name, (page, actions) in pages.items():
                print(f"{name}, {len(page) / 1e6:.1f} MB")
                for what, times in measured(browser, page, directory, actions).items():
                    print(f"  {what:14} {statistics.median(times):7.0f} ms ({max(times):.0f})")
    finally:
        browser.driver.quit()
    return 0


if __name__ == "__main__":
    sys.exit(main())
