import contextlib
import importlib
import os
import shutil
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import numpy as np
import pytest

from mindgap.graph import Graph, Input, Normal, Ref
from mindgap.platforms import registry
from mindgap.platforms.listing import list_platforms
from mindgap.platforms.protocol import PlatformError, Unsupported
from mindgap.platforms.registry import backends, find
from platforms.torch_graphs import conv_net, node, run, same, spec

PACKAGE = Path(__file__).parent / "third_party"


def install(target: Path, name: str, points: dict[str, str], *modules: str) -> None:
    """What an installer leaves behind: the modules, and a dist-info with the entry points."""
    for module in modules:
        shutil.copy(PACKAGE / f"{module}.py", target)
    info = target / f"{name.replace('-', '_')}-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
    lines = "".join(f"{key} = {value}\n" for key, value in points.items())
    (info / "entry_points.txt").write_text(f"[mindgap.platforms]\n{lines}")


@contextlib.contextmanager
def on_path(folder: Path):
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        importlib.invalidate_caches()


@pytest.fixture
def numpy_platform(tmp_path):
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    install(tmp_path, project["name"], project["entry-points"]["mindgap.platforms"], "mindgap_numpy")
    with on_path(tmp_path):
        yield tmp_path


@pytest.fixture
def broken_platforms(tmp_path):
    points = {
        "broken/missing": "no_such_module_anywhere:BACKEND",
        "broken/attribute": "broken_backend:NOTHING",
        "broken/no_open": "broken_backend:NO_OPEN",
        "broken/raising": "broken_backend:RAISING",
        "broken/not_text": "broken_backend:NOT_TEXT",
        "cpu/eager": "broken_backend:RAISING",
    }
    install(tmp_path, "broken-backends", points, "broken_backend")
    with on_path(tmp_path), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def linear_net() -> Graph:
    inputs = tuple(Input(spec("float32", shape), Normal(i)) for i, shape in enumerate([(5, 8), (3, 8), (3,)]))
    out = spec("float32", (5, 3))
    nodes = (
        node("aten.linear.default", Ref(0), Ref(1), Ref(2), out=out),
        node("aten.relu.default", Ref(3), out=out),
        node("aten.mul.Tensor", Ref(4), 0.5, out=out),
    )
    return Graph(inputs, nodes, (5, 3))


def test_a_platform_from_outside_runs_graphs(numpy_platform):
    ours, theirs = run("cpu/eager", linear_net()), run("numpy/eager", linear_net())
    for one, other in zip(ours, theirs, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_a_platform_from_outside_refuses_what_it_lacks(numpy_platform):
    with pytest.raises(Unsupported) as refused:
        run("numpy/eager", conv_net())
    assert refused.value.op == "aten.conv2d.default"


def test_its_options_are_checked_like_ours(numpy_platform):
    backend, options = find("numpy/eager@order=F")
    assert backend.environment(options) == {"MINDGAP_NUMPY_ORDER": "F"}
    with pytest.raises(PlatformError, match="order=G"):
        find("numpy/eager@order=G")
    with pytest.raises(PlatformError, match="did you mean order"):
        find("numpy/eager@ordr=C")


def test_it_is_listed_with_its_versions(numpy_platform):
    (info,) = [i for i in list_platforms() if i.platform == "numpy/eager"]
    assert (info.available, info.versions, info.backend) == (True, {"numpy": np.__version__}, "mindgap_numpy.Backend")
    assert "order" in info.options


def test_another_process_sees_it_too(numpy_platform):
    code = "from mindgap.platforms import find; b, o = find('numpy/eager'); assert b.probe().available"
    environment = {**os.environ, "PYTHONPATH": str(numpy_platform)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_without_it_nothing_is_left():
    assert "numpy/eager" not in backends()


@pytest.mark.nightly
def test_broken_backends_are_listed_with_the_reason_and_hurt_no_other(broken_platforms):
    infos = {i.platform: i for i in list_platforms()}
    assert infos["cpu/eager"].available
    broken = {name: info for name, info in infos.items() if name.startswith("broken/")}
    assert len(broken) == 5
    assert "no_such_module_anywhere" in broken["broken/missing"].reason
    assert "NOTHING" in broken["broken/attribute"].reason
    assert "no open" in broken["broken/no_open"].reason
    assert broken["broken/raising"].reason == "its probe failed: OSError: the driver is gone"
    assert not any(info.available for info in broken.values())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("broken/missing", "no_such_module_anywhere"),
        ("broken/missing@depth=1", "no_such_module_anywhere"),
        ("broken/raising", "ValueError: no such depth"),
        ("broken/not_text", "DEPTH"),
    ],
)
def test_a_broken_backend_is_an_error_in_the_parent(broken_platforms, text, said):
    with pytest.raises(PlatformError, match=said):
        find(text)


def test_nobody_takes_the_place_of_a_platform_of_ours(broken_platforms):
    # It warns once for the packages that are there.
    registry._points_of.cache_clear()
    with pytest.warns(UserWarning, match="broken-backends is hidden"):
        backends()
    graph = conv_net()
    assert same(run("cpu/eager", graph), run("cpu/eager", graph))
