"""pytest plug-in: the fixture `mindgap_diff` compares a model on platforms, the marker `mindgap` names them.

    @pytest.mark.mindgap(platforms=["onnxruntime/cpu", "openvino/cpu"])
    def test_my_model(mindgap_diff):
        mindgap_diff(model, args)

pytest loads this module at its start wherever mindgap is installed. So it imports nothing of mindgap and no framework
before a fixture is used.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any, Final, NoReturn

import pytest

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from pathlib import Path

    from mindgap.workflows.diff import Report, Session

_MARKER: Final = "mindgap"
#: Arguments of `Session.diff` that the marker and the fixture take, and what else fails a test.
_OPTIONS: Final = (
    "platforms", "reference", "backward", "trace", "name", "repeat", "deadline_s", "own_path", "require_support",
    "require_finite", "allow",
)  # fmt: skip


class _AsWritten:
    """Finds mindgap's modules before pytest does, which rewrites the assertions of each plug-in's distribution.

    To rewrite, it parses. mindgap imports in threads, and in Python 3.11 two threads that parse at once can both fail
    ("AST constructor recursion depth mismatch").
    """

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, path) if f"{name}.".startswith(("mindgap.", "mindgap_")) else None


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker, and leaves mindgap's modules as they are written."""
    sys.meta_path.insert(0, _AsWritten)
    config.addinivalue_line(
        "markers",
        f"{_MARKER}(platforms, reference='cpu/eager', backward=False, deadline_s=300, own_path=True, "
        "require_support=False, require_finite=False, allow=()): "
        "options of the fixture mindgap_diff, for a test, a class or a module",
    )


@pytest.fixture(scope="session")
def mindgap_session(pytestconfig: pytest.Config) -> Generator[Session]:
    """A `mindgap.Session`: its worker processes serve all tests of the run, and end with it."""
    from mindgap.workflows.diff import Session

    # pytest 9.2 would show PyTorch's trace, records without text, with each failing test.
    shown: Callable[[logging.LogRecord], bool] = lambda record: record.name != "torch.__trace"  # noqa: E731
    logs: Any = pytestconfig.pluginmanager.getplugin("logging-plugin")
    if logs is not None:
        logs.report_handler.addFilter(shown)
    with Session() as session:
        yield session


@pytest.fixture
def mindgap_diff(request: pytest.FixtureRequest, mindgap_session: Session) -> Callable[..., Report]:
    """`mindgap_diff(model, args=(), kwargs=None, **options)` compares a model on platforms with the reference.

    It takes the options of `mindgap.diff`, `require_support`, `require_finite`, and `allow` as `--allow` of the command
    line; the marker `mindgap` gives their defaults. `[tool.mindgap] allow` of `pyproject.toml` counts too. It returns
    the report where there are no new findings. The test fails with new findings, where nothing was compared, with
    `require_support` where a platform refuses the model, and with `require_finite` where an output has NaN or
    infinities. Otherwise a refusal is a warning, as is an output that is NaN or infinite everywhere.
    """
    marked = _marked(request)

    def compare(
        model: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> Report:
        __tracebackhide__ = True
        settings = {"name": request.node.name, **marked, **_checked(options, "mindgap_diff")}
        required = settings.pop("require_support", False)
        finite = settings.pop("require_finite", False)
        allow = settings.pop("allow", ())
        report = _report(mindgap_session, model, args, kwargs, settings, allow, request.config.rootpath)
        _raise_findings(report, required, finite)
        return report

    return compare


def _marked(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The options of the test's markers; the closest marker wins."""
    options: dict[str, Any] = {}
    for marker in request.node.iter_markers(_MARKER):
        if marker.args:
            _fail(f"@pytest.mark.{_MARKER} takes keywords, as in @pytest.mark.{_MARKER}(platforms=['onnxruntime/cpu'])")
        options = {**_checked(marker.kwargs, f"@pytest.mark.{_MARKER}"), **options}
    return options


def _checked(options: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The options as they are. Fails the test for an option that is none."""
    for name in options:
        if name not in _OPTIONS:
            _fail(f"{where} has no option {name!r}; it takes {', '.join(_OPTIONS)}")
    return dict(options)


def _report(
    session: Session, model: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None, settings: dict[str, Any],
    allow: Sequence[str], root: Path,
) -> Report:  # fmt: skip
    """Runs the comparison, and marks what is allowed. Fails the test with one line for bad input."""
    __tracebackhide__ = True
    from mindgap.findings.allowed import all_allowed, mark_allowed
    from mindgap.graph import MindgapError

    if not settings.get("platforms"):
        _fail(f"no platform: write @pytest.mark.{_MARKER}(platforms=[…]), or mindgap_diff(model, args, platforms=[…])")
    try:
        allowed = all_allowed(allow, root)
        report, notes = mark_allowed(session.diff(model, args, kwargs, **settings), allowed)
        for note in notes:
            warnings.warn(note, stacklevel=4)
        return report
    except MindgapError as error:
        reason = str(error)
    _fail(reason)


def _raise_findings(report: Report, require_support: bool, require_finite: bool) -> None:
    """Fails the test for findings and for what was not compared. Warns of platforms that refuse the model."""
    __tracebackhide__ = True
    from mindgap.report.finding_blocks import blocks
    from mindgap.report.words import contradiction_notes, explain, non_finite_notes, not_finite, other_decision_notes

    refused = [row for row in report.rows if row.verdict is None]
    unsupported = [row for row in refused if row.status == "unsupported"]
    if report.new_findings:
        _fail("\n\n".join(block.text for block in blocks(report)))
    if report.nothing:
        reasons = [f"  {row.platform}: {explain(row)}" for row in refused]
        _fail("\n".join([f"NOTHING WAS COMPARED: {report.nothing}", *reasons]))
    if require_support and unsupported:
        _fail("\n".join(f"{row.model} on {row.platform}: {explain(row)}" for row in unsupported))
    if require_finite and not report.finite:
        _fail("\n".join(not_finite(report)))
    notes = (*non_finite_notes(report), *contradiction_notes(report.rows), *other_decision_notes(report.rows))
    for note in notes:
        warnings.warn(note, stacklevel=3)
    for row in refused:
        warnings.warn(f"nothing is known of {row.model} on {row.platform}: {explain(row)}", stacklevel=3)


def _fail(message: str) -> NoReturn:
    """Fails the test with a message and no traceback."""
    __tracebackhide__ = True
    pytest.fail(f"mindgap: {message}", pytrace=False)
