"""The site in a browser: its search answers five questions of a new user, and no page is wider than the window."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By

from report.browser import Browser, needs_driver

ROOT = Path(__file__).parents[2]
SEARCH = "input[data-md-component=search-query]"
FOUND = ".md-search-result__item > a.md-search-result__link"
SHOWN = "#findings-index li"
#: A question of a user -> pages that answer it.
QUESTIONS = {
    "which of my operators does OpenVINO change?": ("/#which-of-my-operators", "/diff/", "/coverage/"),
    "is this difference rounding?": ("/#is-this-difference", "/verdicts/"),
    "how do I accept bfloat16?": ("/#how-do-i-accept", "/diff/"),
    "my ONNX file came from somebody else": ("/#my-onnx-file", "/diff/", "/corpus/"),
    "what is wrong with tinygrad 0.14?": ("/#what-is-wrong-with-tinygrad", "/findings/"),
}


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the site, built strictly and served."""
    folder = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, "-m", "mkdocs", "build", "-q", "-d", str(folder)], cwd=ROOT, check=True)
    server = ThreadingHTTPServer(("localhost", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://localhost:{server.server_port}"
    server.shutdown()


def results(browser: Browser, question: str) -> list[str]:
    """The addresses that the search gives for a question, once they stay the same."""
    box = browser.driver.find_element(By.CSS_SELECTOR, SEARCH)
    browser.driver.execute_script("arguments[0].focus()", box)
    box.clear()
    box.send_keys(question)
    readings = list[list[str]]()
    while len(readings) < 3 or not readings[-1] or any(each != readings[-1] for each in readings[-3:]):
        time.sleep(1)  # read in one call: the list is made anew while it is read
        readings.append(
            browser.driver.execute_script(
                "return [...document.querySelectorAll(arguments[0])].slice(0, 5).map((each) => each.href)", FOUND
            )
        )
    return readings[-1]


@pytest.mark.nightly
@needs_driver
@pytest.mark.parametrize("question", QUESTIONS)
def test_the_search_answers(site: str, browser: Browser, question: str) -> None:
    browser.driver.get(site)
    # A result is `PAGE?h=words#section`.
    paths = [re.sub(r"\?[^#]*", "", address.removeprefix(site)) for address in results(browser, question)]
    assert any(path.startswith(wanted) for path in paths[:2] for wanted in QUESTIONS[question]), paths


@pytest.mark.nightly
@needs_driver
@pytest.mark.parametrize("width", [400, 800, 1600])
def test_no_page_is_wider_than_the_window(site: str, browser: Browser, width: int) -> None:
    size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        for page in ("", "findings/", "findings/tinygrad-cpu/", "findings/iree-cpu/div_wrong/", "diff/", "examples/"):
            browser.driver.get(f"{site}/{page}")
            assert browser.driver.execute_script("return document.documentElement.scrollWidth") <= width, page
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.nightly
@needs_driver
def test_the_index_of_findings_shows_the_worst_and_all_on_demand(site: str, browser: Browser) -> None:
    browser.driver.get(f"{site}/findings/?severity=high")
    time.sleep(3)
    assert len(browser.driver.find_elements(By.CSS_SELECTOR, SHOWN)) == 40
    browser.driver.find_element(By.CSS_SELECTOR, "#findings-index button").click()
    every = len(browser.driver.find_elements(By.CSS_SELECTOR, SHOWN))
    assert every > 40 and f"{every} of " in browser.driver.find_element(By.CSS_SELECTOR, ".count").text


@pytest.mark.nightly
@needs_driver
def test_the_index_of_findings_names_simulators(site: str, browser: Browser) -> None:
    browser.driver.get(f"{site}/findings/?ran+on=simulator+or+emulator&severity=critical")
    time.sleep(3)
    rows = [row.text for row in browser.driver.find_elements(By.CSS_SELECTOR, SHOWN)]
    assert rows and all(" · simulator or emulator · " in row for row in rows)
