"""Sources are taken apart, and each wrong one gets one line that says what to write instead."""

import pytest
from hypothesis import given, strategies as st

from mindgap.sources.source import SCHEMES, SourceError, parse, source_options, suggest

NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_.\-]{0,20}", fullmatch=True)


@given(
    st.sampled_from(sorted(SCHEMES)),
    NAMES,
    st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), NAMES, max_size=3),
)
def test_a_source_is_put_together_from_what_it_was_taken_apart_into(scheme, name, options):
    text = f"{scheme}:{name}" + ("?" + "&".join(f"{k}={v}" for k, v in options.items()) if options else "")
    source = parse(text)
    assert (source.scheme, source.target, source.options, source.text) == (scheme, name, options, text)


def test_files_modules_records_and_patterns():
    assert parse("my/model.py:make").scheme == "python"
    assert parse("my/model.py?seed=3").target == "my/model.py:make"
    assert parse("hub:owner/name.py").target == "owner/name.py"
    assert parse("package.module:make?seed=3").options == {"seed": "3"}
    assert parse("records:a/b.parquet#timm/resnet18").target == "a/b.parquet#timm/resnet18"
    assert parse("records:b.parquet#timm/resnet1?").target == "b.parquet#timm/resnet1?"
    assert parse("records:b.parquet#timm/resnet1??seed=2").target == "b.parquet#timm/resnet1?"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("tim:resnet18x", "did you mean timm"),
        ("resnet18", "write FILE.py:CALLABLE"),
        ("timm:", "nothing after timm:"),
        ("my/model.txt:make", "neither a .py file nor a module"),
        ("", "write FILE.py:CALLABLE"),
    ],
)
def test_what_is_no_source_is_refused_in_one_line(text, says):
    with pytest.raises(SourceError, match=says) as refused:
        source = parse(text)
        if source.scheme == "python":
            from mindgap.sources import open_source

            open_source(text)
    assert "\n" not in str(refused.value)


def test_options_become_values():
    chosen = source_options(parse("timm:resnet18?size=64&batch=2&dtype=bfloat16&train=1&seed=7"))
    assert (chosen.size, chosen.batch, chosen.dtype, chosen.train, chosen.seed) == (64, 2, "bfloat16", True, 7)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("timm:resnet18?sizes=64", "no option 'sizes'"),
        ("timm:resnet18?size=big", "size=big"),
        ("timm:resnet18?size=0", "from 1 up"),
        ("timm:resnet18?dtype=int8", "no floating dtype"),
        ("timm:resnet18?train=yes", "train=1 or train=0"),
        ("graph:a.graph?seed=1", "there are: none"),
    ],
)
def test_a_wrong_option_is_named(text, says):
    with pytest.raises(SourceError, match=says):
        source_options(parse(text))


def test_suggestions_ignore_case_and_are_silent_when_nothing_is_near():
    assert "BertModel" in suggest("bertmodel", ["BertModel", "T5Model"])
    assert suggest("zzzz", ["BertModel"]) == ""
