import dataclasses
import itertools
import json
import re

import numpy as np
import pytest

from machines.conftest import SETTINGS, tiny_suite
from mindgap.graph import MindgapError, TensorStore
from mindgap.platforms.name import parse
from mindgap.run.outcome import Job
from mindgap.run.pool import WorkerPool
from mindgap_studies.equivalence.prefix_digests import dendrogram, shared_bits
from mindgap_studies.machines.collected_file import read
from mindgap_studies.machines.collecting import collect
from mindgap_studies.machines.settings import Setting, all_settings, quick_settings


@pytest.mark.nightly
def test_prefixes_and_deviating_elements_are_those_of_the_tensors(collected_path, tmp_path):
    found = read(collected_path)
    model = tiny_suite(TensorStore(tmp_path))[0]
    numbers = tuple(value.number for value in model.subject.values)
    values = []
    for setting in SETTINGS:
        with WorkerPool([setting.platform], tensors=tmp_path, busy=1) as pool:
            outcome = pool.run(Job(setting.platform, model.graph, want="trace", values=numbers))
            assert outcome.values is not None, outcome.message
            values.append(outcome.values)
    observed = {o.platform: o for o in found.observations if o.subject == "tiny/0"}
    deviating = {(d.value): d for d in found.deviating}
    assert deviating
    several = 0
    for place, value in enumerate(model.subject.values):
        arrays = [each[value.number - len(model.graph.inputs)] for each in values]
        classes = [observed[s.platform].classes[place] for s in SETTINGS]
        prefixes = found.prefixes["tiny/0", value.number]
        for i, j in itertools.combinations(range(len(SETTINGS)), 2):
            direct = dendrogram([arrays[i], arrays[j]]).minimum
            assert shared_bits(prefixes[classes[i]], prefixes[classes[j]]) == direct
        several += len(set(classes)) > 1
        if value.number in deviating:
            same = np.logical_and.reduce([each.view(np.uint32) == arrays[0].view(np.uint32) for each in arrays[1:]])
            assert deviating[value.number].deviating == int((~same).sum())
            assert deviating[value.number].elements == same.size
    assert several > 10


@pytest.mark.nightly
def test_an_interrupted_collection_goes_on_and_ends_with_the_same_file(collected_path, tmp_path):
    path = tmp_path / "here.json.zst"

    class Stop(Exception):
        pass

    def stop(done, total, name):
        if done == 1:
            raise Stop

    with pytest.raises(Stop):
        collect(path, tiny_suite, SETTINGS, on_progress=stop)
    partial = path.with_name("here.json.zst.partial")
    assert partial.exists() and not path.exists()
    with partial.open("a") as file:
        file.write('{"platform": "cut sh')  # a write that the machine's end cut short
    ran = []
    collect(path, tiny_suite, SETTINGS, on_progress=lambda done, total, name: ran.append(name))
    assert not partial.exists()
    found, whole = read(path), read(collected_path)
    # The two may have been collected before and after midnight.
    assert dataclasses.replace(found, machine=whole.machine) == whole


@pytest.mark.nightly
def test_a_collection_whose_time_is_up_is_written_and_can_go_on(tmp_path):
    path = tmp_path / "here.json.zst"
    collect(path, tiny_suite, SETTINGS[:2], budget_s=0.0)
    found = read(path)
    assert list(found.settings) == [SETTINGS[0].platform]
    collect(path, tiny_suite, SETTINGS[:2])
    found = read(path)
    assert list(found.settings) == [each.platform for each in SETTINGS[:2]]
    assert not path.with_name("here.json.zst.partial").exists()


@pytest.mark.parametrize("content", [json.dumps({"format": "another"}) + "\n", "somebody's notes\n"])
def test_a_partial_file_of_another_suite_is_refused_and_kept(tmp_path, content):
    path = tmp_path / "here.json.zst"
    partial = tmp_path / "here.json.zst.partial"
    partial.write_text(content)
    with pytest.raises(MindgapError, match=r"here\.json\.zst\.partial was begun on another machine"):
        collect(path, tiny_suite, SETTINGS[:1])
    assert partial.read_text() == content


def test_nothing_ran_is_an_error(tmp_path):
    with pytest.raises(MindgapError, match="nothing ran on this machine"):
        collect(tmp_path / "x", tiny_suite, [Setting(parse("cpu/eager@threads=1"), frozenset({"reduced"}))])


def test_the_file_names_no_host_user_or_path(collected_path):
    import getpass
    import socket

    found = read(collected_path)
    text = json.dumps(dataclasses.asdict(found.machine)) + json.dumps(found.settings)
    for word in (socket.gethostname(), getpass.getuser()):
        assert not re.search(rf"\b{re.escape(word)}\b", text)
    for path in ("/home", "/work", "/tmp"):
        assert path not in text


def test_settings_are_distinct_and_the_quick_ones_are_among_them():
    names = [each.platform for each in all_settings()]
    assert len(names) == len(set(names)) == 60
    assert {each.platform for each in quick_settings()} < set(names)
