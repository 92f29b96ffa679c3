import numpy as np
import pytest

from mindgap.graph import Array, MindgapError
from mindgap_studies.deviations import OURS, PAPER, Profile, class_numbers, most_frequent
from mindgap_studies.equivalence.equality import identity


def numbers(outputs: list[list[float]], profile: Profile) -> tuple[int, ...]:
    return class_numbers([identity(np.array(each, np.float32), profile.equality) for each in outputs], profile)


def test_the_profiles_number_classes_differently() -> None:
    outputs = [[1.0], [2.0], [2.0], [3.0], [3.0]]
    assert numbers(outputs, PAPER) == (1, 2, 2, 3, 3)
    assert numbers(outputs, OURS) == (3, 1, 1, 2, 2)


def test_the_profiles_differ_in_zeros_and_nans() -> None:
    outputs = [[0.0], [-0.0], [float("nan")], [float("nan")]]
    assert numbers(outputs, PAPER) == (1, 1, 2, 3)
    assert numbers(outputs, OURS) == (2, 3, 1, 1)


def runs(*values: float) -> list[Array]:
    return [np.array([value], np.float32) for value in values]


def test_the_mode_of_repeated_runs() -> None:
    for profile in (PAPER, OURS):
        mode = most_frequent(runs(1, 2, 2, 3), profile)
        assert (mode.index, mode.count, mode.runs, mode.distinct) == (1, 2, 4, 3)
        assert not mode.deterministic
        assert most_frequent(runs(5, 5), profile).deterministic
    assert most_frequent(runs(float("nan"), float("nan")), OURS).deterministic
    assert not most_frequent(runs(float("nan"), float("nan")), PAPER).deterministic


def test_of_a_tie_the_largest_is_chosen_and_ours_records_the_others() -> None:
    tied = runs(1, 4, 2, 4, 1, 2)
    assert (most_frequent(tied, PAPER).index, most_frequent(tied, PAPER).ties) == (1, ())
    assert (most_frequent(tied, OURS).index, most_frequent(tied, OURS).ties) == (1, (0, 2))


def test_no_runs_are_an_error() -> None:
    with pytest.raises(MindgapError, match="no runs"):
        most_frequent([], PAPER)
