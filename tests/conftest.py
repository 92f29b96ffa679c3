"""What holds for all tests: PyTorch uses one thread, and Hypothesis times no example, since other work shares the
processors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from report.browser import Browser

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.fixture(scope="session", autouse=True)
def one_thread_of_pytorch() -> None:
    """Sums of the same numbers are then the same."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A browser for the tests of pages, started once."""
    from report.browser import Browser

    started = Browser()
    yield started
    started.driver.quit()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of the cases of a test that is `sampled(count)`, all but so many, spread over them, are nightly."""
    cases = defaultdict[tuple[str, int], list[pytest.Item]](list)
    for item in items:
        for mark in item.iter_markers("sampled"):
            cases[item.nodeid.partition("[")[0], mark.args[0]].append(item)
    for (_, count), every in cases.items():
        kept = {number * len(every) // count for number in range(count)}
        for number, item in enumerate(every):
            if number not in kept:
                item.add_marker("nightly")
