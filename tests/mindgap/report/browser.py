"""Chromium for tests of pages: one browser for all tests, without any network."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.select import Select

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
)
DRIVER = shutil.which("chromedriver") or ""
needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="no Chromium on this machine")
needs_driver = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="no Chromium with chromedriver on this machine")
#: The browser keeps quiet itself: no name resolves for it.
QUIET = (
    "--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr",
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
)  # fmt: skip


class Browser:
    """A Chromium that tests press buttons in."""

    def __init__(self) -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for argument in (*(each for each in QUIET if "resolver" not in each and "logging" not in each),
                         "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost",
                         "--window-size=1400,1000"):  # fmt: skip
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
        permissions = ["clipboardReadWrite", "clipboardSanitizedWrite"]
        self.driver.execute_cdp_cmd("Browser.grantPermissions", {"permissions": permissions})

    def open(self, page: str, directory: Path) -> None:
        """Shows a page."""
        file = directory / "page.html"
        file.write_text(page, encoding="utf-8")
        self.driver.get(file.as_uri())

    def find(self, selector: str) -> WebElement:
        """The first element of a CSS selector."""
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        """The text of each element of a CSS selector that is drawn."""
        drawn = "[...document.querySelectorAll(arguments[0])].filter((each) => each.checkVisibility())"
        return self.driver.execute_script(f"return {drawn}.map((each) => each.innerText.trim())", selector)

    def press(self, selector: str) -> None:
        """Clicks on an element."""
        element = self.find(selector)
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    def choose(self, selector: str, text: str) -> None:
        """Chooses an option of a list by its text."""
        Select(self.find(selector)).select_by_visible_text(text)

    def drag(self, selector: str, x: int, y: int) -> None:
        """Drags an element by so many pixels."""
        ActionChains(self.driver).drag_and_drop_by_offset(self.find(selector), x, y).perform()

    def run(self, script: str) -> object:
        """Runs JavaScript that returns a value."""
        return self.driver.execute_script(script)

    def clipboard(self) -> str:
        """What was copied last."""
        return self.driver.execute_async_script("navigator.clipboard.readText().then(arguments[0])")

    def complaints(self) -> list[str]:
        """Errors and warnings since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]
