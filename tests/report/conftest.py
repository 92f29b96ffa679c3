"""A browser for the tests of this folder, started once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from report.browser import Browser


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    found = Browser()
    yield found
    found.driver.quit()
