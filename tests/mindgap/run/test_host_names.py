"""Hosts by name: the files that have their commands, how they are listed, and who is asked."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mindgap.cli.env import platforms
from mindgap.findings.reduction.reproducer import verify
from mindgap.findings.script.form import FAULT
from mindgap.platforms.environments import HostProblem, find_host
from mindgap.platforms.listing import known_hosts, list_hosts
from mindgap.platforms.name import parse
from mindgap.platforms.other_environment import probe_all
from mindgap.platforms.protocol import PlatformError
from mindgap.platforms.registry import canonical, find
from mindgap_surveys.support.graph_survey import may_lack

WORKER = f"{sys.executable} -m mindgap worker"
Write = Callable[..., None]


def test_the_host_is_part_of_the_name(write_host: Write) -> None:
    name = canonical("cpu/eager@threads=1,host=edge")
    assert name == "cpu/eager@host=edge,threads=1" and name.host == "edge" and name.backend_options == {"threads": "1"}
    assert canonical("cpu/eager@host=elsewhere") == "cpu/eager@host=elsewhere", "as in the plan of another machine"
    assert may_lack(name, parse("cpu/eager")) and not may_lack(name, parse("cpu/eager@host=edge"))
    with pytest.raises(HostProblem, match=r"no host egde .did you mean edge.*under \[hosts.egde\] in a mindgap.toml"):
        find("cpu/eager@host=egde")
    with pytest.raises(PlatformError, match="names a host and an environment of this machine"):
        find("cpu/eager@host=edge,env=other")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[hosts.edge]\n", r"\[hosts.edge\] has no command that starts a worker there: write command = "),
        ("[hosts.edge]\ncommand = 'ssh \"edge'\n", "No closing quotation"),
        ("[hosts.edge]\ncommand = ['ssh', 3]\n", "has no command that starts a worker there"),
        ("[hosts.edge]\ncommand = 'x'\nport = 22\n", "has no key port: known are command, connect_s"),
        ("[hosts.edge]\ncommand = 'x'\nwait_s = 'long'\n", "wait_s = 'long': it takes a number, at least 0"),
        ("[hosts.edge]\ncommand = 'x'\nworkers = 0\n", "workers = 0: it takes a number, at least 1"),
        ("[hosts.'a,b']\ncommand = 'x'\n", "a host's name has letters"),
        ("hosts = 3\n", r"hosts is no table: write \[hosts.edge\] and command = "),
        ("[hosts\n", "mindgap.toml cannot be read"),
    ],
)
def test_a_wrong_file_is_one_line(write_host: Write, tmp_path: Path, text: str, line: str) -> None:
    (tmp_path / "mindgap.toml").write_text(text)
    with pytest.raises(HostProblem, match=line) as raised:
        find("cpu/eager@host=edge")
    assert "\n" not in str(raised.value)


def test_the_file_of_a_folder_above_counts(write_host: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a/b")
    assert find_host("edge").command[-2:] == ("mindgap", "worker")


def test_a_file_of_somebody_else_is_refused_by_name(
    write_host: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    owner = (tmp_path / "mindgap.toml").stat().st_uid
    if owner == 0:
        os.chown(tmp_path / "mindgap.toml", 12345, -1)
        owner = 12345
    for user in (owner + 1, 0 if owner else 1):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        with pytest.raises(HostProblem, match=f"^{tmp_path}/mindgap.toml belongs to neither you nor root") as raised:
            known_hosts()
        assert "\n" not in str(raised.value)
    monkeypatch.setattr(os, "geteuid", lambda: owner)
    assert find_host("edge").name == "edge"


def test_hosts_are_listed_without_a_connection_until_it_is_asked_for(
    write_host: Write, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_host(f"sh -c 'echo connected >> {tmp_path}/log; exit 1'")
    monkeypatch.setattr("mindgap.platforms.listing.list_platforms", list)
    platforms(as_json=True)
    (told,) = json.loads(capfd.readouterr().out)
    assert (told["platform"], told["available"]) == ("*@host=edge", False)
    assert told["reason"] == "not asked; --hosts asks" and not (tmp_path / "log").exists()
    platforms(as_json=True, ask_hosts=True)
    (told,) = json.loads(capfd.readouterr().out)
    assert "ended with status 1" in told["reason"] and (tmp_path / "log").exists()


def test_a_script_is_verified_there(write_host: Write) -> None:
    fault = "import os, sys\nprint(os.environ['THERE'])\nprint('FAULT')\nsys.exit(1)\n".replace("FAULT", FAULT)
    write_host(f"env THERE=there {WORKER}")
    assert verify(fault, host="edge") == (True, f"there\n{FAULT}\n", "")
    write_host("false")
    shown, printed, _ = verify(fault, host="edge")
    assert not shown and "host edge: its command false ended with status 1" in printed


def test_the_platforms_of_a_host_are_listed_or_the_reason_once(write_host: Write) -> None:
    found = probe_all(find_host("edge"), ["misbehaving:BACKEND", "misbehaving:NOTHING"])
    assert found["misbehaving:BACKEND"].available and "NOTHING" in found["misbehaving:NOTHING"].reason
    write_host("sh -c 'echo edge: no route to host >&2; exit 255'")
    (info,) = list_hosts()
    assert (info.platform, info.host, info.available) == ("*@host=edge", "edge", False)
    assert info.reason.endswith("ended with status 255: edge: no route to host")
