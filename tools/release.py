"""Builds the wheel and the sdist into `dist/`, checks them, and prints what a person does to publish them.

python tools/release.py                   # `make release`; publishes nothing
python tools/release.py --account NAME    # writes `github.com/NAME/mindgap` into every file that names the repository
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
#: What stands for the account that publishes it, until a person names one.
PLACEHOLDER = "OWNER/mindgap"
ACCOUNT = "python tools/release.py --account NAME"
#: These handle the placeholder and do not publish it.
TOOLS = ("tools/", "tests/")


def run(*command: str) -> None:
    print(f"$ {' '.join(command)}", flush=True)
    if subprocess.run(command, cwd=ROOT, check=False).returncode:
        sys.exit(f"release: {command[-1]}: the check above failed")


def unset(root: Path = ROOT) -> list[str]:
    """Returns the files of the repository that name the placeholder."""
    found = subprocess.run(["git", "grep", "-lF", PLACEHOLDER], cwd=root, capture_output=True, text=True, check=False)
    return [name for name in found.stdout.splitlines() if not name.startswith(TOOLS)]


def write_account(account: str, root: Path = ROOT) -> list[str]:
    """Writes the account into every file that names the placeholder; returns them."""
    files = unset(root)
    for name in files:
        text = (root / name).read_text(encoding="utf-8")
        (root / name).write_text(text.replace(PLACEHOLDER, f"{account}/mindgap"), encoding="utf-8")
    return files


def to_do(version: str) -> list[str]:
    """Returns what is left to a person, in order."""
    changed = subprocess.run(
        ["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    files = unset()
    return [
        *(["commit or remove what `git status` shows, and run `make release` again"] if changed else []),
        *([f"name the account: `{ACCOUNT}` writes it into {', '.join(files)}"] if files else []),
        "run `make nightly`; install as a user does: .venv/bin/python tools/fresh_install.py dist/*.whl",
        f"git tag -a v{version} -m 'mindgap {version}' && git push origin v{version}",
        f".venv/bin/twine upload dist/mindgap-{version}*  (with an account of the index)",
        f"release the tag with CHANGELOG.md's text and both files; the action is then ACCOUNT/mindgap@v{version}",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--account", metavar="NAME", help="write this account into every file, and build nothing")
    account = parser.parse_args().account
    if account is not None:
        if not re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,37}[A-Za-z0-9])?", account):
            parser.error(f"{account!r} is no name of an account: letters, digits and single hyphens")
        print("\n".join(write_account(account)) or f"no file names {PLACEHOLDER}")
        return 0
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
