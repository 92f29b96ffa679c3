import numpy as np
import pytest

from mindgap.graph import Array, MindgapError
from mindgap_studies.deviations.definitions import most_frequent, numbers


def runs(*values: float) -> list[Array]:
    return [np.array([value], np.float32) for value in values]


def test_classes_are_numbered_by_appearance_or_by_size() -> None:
    outputs = runs(1, 2, 2, 3, 3)
    assert numbers(outputs) == (1, 2, 2, 3, 3)
    assert numbers(outputs, largest_first=True) == (3, 1, 1, 2, 2)


def test_zeros_of_either_sign_are_two_classes_and_nans_are_one() -> None:
    outputs = runs(0.0, -0.0, float("nan"), float("nan"))
    assert numbers(outputs) == (1, 2, 3, 3)
    assert numbers(outputs, largest_first=True) == (2, 3, 1, 1)


def test_the_mode_of_repeated_runs() -> None:
    mode = most_frequent(runs(1, 2, 2, 3))
    assert (mode.index, mode.count, mode.runs, mode.distinct) == (1, 2, 4, 3)
    assert not mode.deterministic
    assert most_frequent(runs(5, 5)).deterministic
    assert most_frequent(runs(float("nan"), float("nan"))).deterministic


def test_of_a_tie_the_largest_is_chosen_and_the_others_are_recorded() -> None:
    mode = most_frequent(runs(1, 4, 2, 4, 1, 2))
    assert (mode.index, mode.ties) == (1, (0, 2))


def test_no_runs_are_an_error() -> None:
    with pytest.raises(MindgapError, match="no runs"):
        most_frequent([])
