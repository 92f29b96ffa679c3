"""The cache against a slow obvious version."""

from __future__ import annotations

from hypothesis import given, strategies as st

from mindgap.graph.cache import Cache

COUNT, NBYTES = 3, 10
steps = st.lists(
    st.tuples(st.just("put"), st.integers(0, 5), st.integers(0, 12))
    | st.tuples(st.just("get"), st.integers(0, 5), st.just(0))
    | st.tuples(st.just("drop"), st.integers(0, 5), st.just(0)),
    max_size=40,
)


@given(steps)
def test_bounded_and_least_recently_used_goes_first(steps: list[tuple[str, int, int]]) -> None:
    cache: Cache[int, int] = Cache(COUNT, NBYTES)
    obvious: list[tuple[int, int]] = []  # (key, size), oldest first; the value is the size
    for what, key, size in steps:
        held = [pair for pair in obvious if pair[0] == key]
        rest = [pair for pair in obvious if pair[0] != key]
        if what == "put":
            cache.put(key, size, size)
            obvious = rest + ([(key, size)] if size <= NBYTES else [])
            while len(obvious) > COUNT or sum(s for _, s in obvious) > NBYTES:
                obvious.pop(0)
        elif what == "get":
            assert cache.get(key) == (held[0][1] if held else None)
            obvious = rest + held
        else:
            cache.drop(key)
            obvious = rest
        assert len(cache) == len(obvious) and cache.nbytes == sum(s for _, s in obvious)
    cache.clear()
    assert len(cache) == 0 and cache.nbytes == 0
