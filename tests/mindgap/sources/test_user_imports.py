"""Each of the user's files imports what Python gives it when it runs alone, at its import, in its functions and in
`forward`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

#: A file of a folder, the text of its sibling `helper`, and what that returns.
_IN_FORWARD = """
import torch
class M(torch.nn.Module):
    def forward(self, x):
        import helper
        return helper.f(x)
def make(): return M(), (torch.ones(2),)
"""
_FILES = {
    "one/m.py": _IN_FORWARD,
    "one/helper.py": "def f(x): return x * 2",
    "two/m.py": _IN_FORWARD,
    "two/helper.py": "from second import K\ndef f(x): return x * K",
    "two/second.py": "K = 3",
    "of_function/m.py": "import torch\ndef make():\n    from helper import f\n    return f, (torch.ones(2),)\n",
    "of_function/helper.py": "def f(x):\n    from late import K\n    return x * K",
    "of_function/late.py": "K = 4",
    "installed/m.py": _IN_FORWARD.replace("import helper", "import yaml as helper"),
    "installed/yaml.py": "def f(x): return x * 5",
    "path/m.py": f"import sys, os\nsys.path.append(os.path.dirname(__file__) + '/lib')\n{_IN_FORWARD}",
    "path/lib/helper.py": "def f(x): return x * 6",
    "package/__init__.py": "",
    "package/sub/__init__.py": "",
    "package/numbers.py": "K = 7",
    "package/sub/m.py": "from ..numbers import K\nfrom .functions import f as g\n"
    + _IN_FORWARD.replace("import helper", "from . import functions as helper"),
    "package/sub/functions.py": "from ..numbers import K\ndef f(x): return x * K",
    "relative/m.py": "from .helper import f\n" + _IN_FORWARD.replace("import helper", "from . import helper"),
    "relative/helper.py": "def f(x): return x * 8",
    "folder/m.py": _IN_FORWARD.replace("import helper", "from utils import helper"),
    "folder/utils/helper.py": "def f(x): return x * 9",
}
_RUN = """
import sys
import yaml
from mindgap.sources import open_source
from mindgap.sources.files.user_imports import activate
from mindgap.sources.opening import capture_built
before = [*sys.path], yaml
programs = [open_source(f"{name}/m.py:make")[0] for name in sys.argv[1:]]
built = [each.make() for each in programs]
for each in built:
    capture_built(each)
    print(float(each.program(*each.args)[0]))
activate(None)
import yaml
assert ([*sys.path], yaml) == before, sys.path
"""


def test_each_file_gets_its_own_siblings(tmp_path: Path) -> None:
    for name, text in _FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    folders = ["one", "two", "of_function", "installed", "path", "package/sub", "relative", "folder"]
    ran = subprocess.run(
        [sys.executable, "-c", _RUN, *folders], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert not ran.returncode and ran.stdout.split() == [f"{number}.0" for number in range(2, 10)], ran.stderr


def test_what_a_process_imported_from_the_folder_stays_imported(tmp_path: Path) -> None:
    """A script, or a test of a project, that opens a file next to modules that it uses itself."""
    (tmp_path / "used.py").write_text("K = 2\n")
    (tmp_path / "new.py").write_text("K = 3\n")
    (tmp_path / "m.py").write_text(
        "import torch, used, new\ndef make(): return torch.nn.ReLU(), (torch.ones(used.K),)\n"
    )
    script = """
import sys
sys.path.insert(0, sys.argv[1])
import used
sys.path.remove(sys.argv[1])
from mindgap.sources import open_source
from mindgap.sources.files.user_imports import activate
open_source(f"{sys.argv[1]}/m.py:make")
assert "new" in sys.modules
activate(None)
assert sys.modules["used"] is used and "new" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
