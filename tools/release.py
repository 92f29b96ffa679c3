"""Builds the wheel and the sdist into `dist/`, checks them, and prints what a person does to publish them.

python tools/release.py    # `make release`; publishes nothing
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
#: Files with the name of the account that publishes it.
WITH_OWNER = (
    "pyproject.toml",
    "CITATION.cff",
    "README.md",
    ".pre-commit-hooks.yaml",
    "docs/install.md",
    "docs/for-agents.md",
)


def run(*command: str) -> None:
    print(f"$ {' '.join(command)}", flush=True)
    if subprocess.run(command, cwd=ROOT, check=False).returncode:
        sys.exit(f"release: {command[-1]}: the check above failed")


def to_do(version: str) -> list[str]:
    """Returns what is left to a person, in order."""
    changed = subprocess.run(
        ["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    unset = [
        name for name in WITH_OWNER if (ROOT / name).is_file() and "OWNER/" in (ROOT / name).read_text(encoding="utf-8")
    ]
    return [
        *(["commit or remove what `git status` shows, and run `make release` again"] if changed else []),
        *(
            [f"write the account in place of OWNER in {', '.join(unset)}, and run `make release` again"]
            if unset
            else []
        ),
        "run `make nightly`; install as a user does: .venv/bin/python tools/fresh_install.py dist/*.whl",
        f"git tag -a v{version} -m 'mindgap {version}' && git push origin v{version}",
        f".venv/bin/twine upload dist/mindgap-{version}*  (with an account of the index)",
        f"release the tag with CHANGELOG.md's text and both files; the action is then OWNER/mindgap@v{version}",
    ]


def main() -> int:
    source = (ROOT / "src" / "mindgap" / "__init__.py").read_text(encoding="utf-8")
    (version,) = re.findall(r'^__version__ = "(.+)"$', source, re.MULTILINE)
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(DIST))
    files = [str(each) for each in sorted(DIST.iterdir())]
    run(sys.executable, "-m", "twine", "check", "--strict", *files)
    run(sys.executable, "-m", "check_wheel_contents", *[each for each in files if each.endswith(".whl")])
    run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_release.py")
    for each in files:
        print(f"{Path(each).relative_to(ROOT)}  {Path(each).stat().st_size / 2**20:.1f} MiB")
    print(f"\nmindgap {version} is built and checked. Nothing is published. What a person still does:")
    for number, line in enumerate(to_do(version), 1):
        print(f"{number}. {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
