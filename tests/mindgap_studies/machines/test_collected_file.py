import json
from pathlib import Path

import pytest
import zstandard

from mindgap_studies.machines.collected_file import CollectedFileError, read, write
from mindgap_studies.machines.merging import read_and_merge


def document(path):
    return json.loads(zstandard.ZstdDecompressor().decompress(path.read_bytes()))


def put(path, found):
    path.write_bytes(zstandard.ZstdCompressor().compress(json.dumps(found).encode()))
    return path


@pytest.mark.nightly
def test_what_is_written_is_read(collected_path, tmp_path):
    found = read(collected_path)
    write(tmp_path / "again", found)
    assert read(tmp_path / "again") == found
    assert (tmp_path / "again").read_bytes() == collected_path.read_bytes()


@pytest.mark.nightly
def test_every_damaged_file_is_refused_with_its_name(collected_path, tmp_path):
    data = collected_path.read_bytes()
    bad = tmp_path / "bad.json.zst"
    for content in (b"", b"text", data[: len(data) // 2], data[:40] + b"\0\0\0" + data[43:]):
        bad.write_bytes(content)
        with pytest.raises(CollectedFileError, match=r"bad\.json\.zst is (empty|damaged)"):
            read(bad)
    with pytest.raises(CollectedFileError, match="absent cannot be read"):
        read(tmp_path / "absent")


def without_outputs(found):
    subject, platform, status, classes, message = found["observations"][0]
    return {**found, "observations": [[subject, platform, status, [None] * len(classes), message]]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: {**d, "version": 99}, "has version 99 of the format, this mindgap reads versions 1, 2"),
        (lambda d: {**d, "format": "other"}, "is no file of"),
        (lambda d: [d], "is no file of"),
        (lambda d: {key: d[key] for key in d if key != "subjects"}, "is damaged: KeyError"),
        (lambda d: {**d, "observations": []}, "has no observation"),
        (lambda d: {**d, "observations": [[0, 0, "ok", [999] * len(d["subjects"][0]["values"]), ""]]}, "no class 999"),
        (lambda d: {**d, "observations": [[0, 0, "ok", [0], ""]]}, "values and 1 classes"),
        (lambda d: {**d, "prefixes": [[0, 3, ["AAAA"]]]}, "is damaged: ValueError"),
        (lambda d: {**d, "machine": {}}, "is damaged"),
        (without_outputs, "has no class of its output"),
        (lambda d: {**d, "prefixes": [[s, v, ["AAAAAAAA" for _ in p]] for s, v, p in d["prefixes"]]}, "1 digests for"),
    ],
)
def test_changed_content_is_refused(collected_path, tmp_path, change, said):
    bad = put(tmp_path / "bad.json.zst", change(document(collected_path)))
    with pytest.raises(CollectedFileError, match=r"bad\.json\.zst") as caught:
        read(bad)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_the_kept_file_of_version_1_is_read():
    path = Path(__file__).parents[3] / "docs" / "machines" / "amd-epyc-family-25-model-17.json.zst"
    assert document(path)["version"] == 1
    found = read(path)
    assert len(found.settings) == 60 and all(each.classes for each in found.observations)


def test_a_file_given_twice_and_a_copy_are_refused(collected_path, tmp_path):
    copy = tmp_path / "copy"
    copy.write_bytes(collected_path.read_bytes())
    with pytest.raises(CollectedFileError, match=r"copy holds the same observations as .*here"):
        read_and_merge([collected_path, copy])


def test_another_model_set_is_refused(collected_path, tmp_path):
    found = document(collected_path)
    found["subjects"][0]["digest"] = "another"
    other = put(tmp_path / "other", found)
    with pytest.raises(CollectedFileError, match=r"other has another model set than .*: tiny/0 is another graph"):
        read_and_merge([collected_path, other])


def test_files_of_two_machines_merge_into_one_set_of_platforms(collected_path, tmp_path):
    found = document(collected_path)
    found["machine"]["collected"] = "2000-01-01"
    twin = put(tmp_path / "twin", found)
    merged = read_and_merge([collected_path, twin])
    name = found["machine"]["name"]
    assert list(merged.machines) == [name, f"{name}#2"]
    column = merged.columns["tiny/0"]
    assert len(column.platforms) == 2 * 3
    # The second machine computed the same.
    for prefixes in column.prefixes.values():
        assert prefixes[:3] == prefixes[3:]
