"""Boxes by the definitions of ILSVRC (arXiv 1409.0575, section 4) and of COCO, on cases that are made by hand."""

import numpy as np
import pytest

from mindgap_studies.results.predictions import Prediction, Truth
from mindgap_studies.task.boxes import box_array, overlaps, same_objects
from mindgap_studies.task.detection import coco_precision, detection_precisions, localised, required_overlap

TRUE = (0.0, 0.0, 100.0, 100.0)


def found(sample: int, *detections: tuple[int, float, tuple[float, ...]]) -> Prediction:
    boxes = tuple(side for _, _, box in detections for side in box)
    return Prediction(sample, tuple(d[0] for d in detections), boxes=boxes, scores=tuple(d[1] for d in detections))


def test_overlap_is_intersection_over_union() -> None:
    ours = box_array([0, 0, 2, 2, 5, 5, 5, 5])
    theirs = box_array([1, 1, 3, 3, 0, 0, 2, 2, 9, 9, 10, 10])
    assert np.allclose(overlaps(ours, theirs), [[1 / 7, 1, 0], [0, 0, 0]])


@pytest.mark.parametrize(
    ("labels", "boxes", "right"),
    [
        ((3, 7), (0.0, 0, 100, 50), True),  # the label is the second guess; the overlap is exactly 0.5
        ((3, 7), (0.0, 0, 100, 49), False),
        ((7, 3), (200.0, 0, 300, 100), False),
        ((3, 4, 5, 6, 8, 7), TRUE, False),  # the right label is the sixth guess
        ((3, 7), (*TRUE, 200.0, 0, 300, 100), False),  # the guess with the right label has the wrong box
        ((3, 7), (200.0, 0, 300, 100, *TRUE), True),
    ],
)
def test_localisation_takes_the_best_of_five_guesses(labels, boxes, right) -> None:
    assert localised(Prediction(0, labels, boxes=boxes), Truth(0, (7,), (300.0, 300, 400, 400, *TRUE))) is right


def test_small_objects_need_less_overlap() -> None:
    assert required_overlap(box_array([*TRUE, 0, 0, 10, 10])) == pytest.approx([0.5, 100 / 400])


def test_a_second_detection_of_an_object_is_a_false_positive() -> None:
    truths = {0: Truth(0, (1, 1), (*TRUE, 200.0, 0, 300, 100))}
    # By score: right, a duplicate, right. Precision at the two steps of recall: 1, 2/3.
    one = found(0, (1, 0.9, TRUE), (1, 0.8, TRUE), (1, 0.7, (200.0, 0, 300, 100)))
    assert detection_precisions({0: one}, truths) == {1: pytest.approx((1 + 2 / 3) / 2)}


def test_precision_is_made_to_fall() -> None:
    truths = {0: Truth(0, (1, 1), (*TRUE, 200.0, 0, 300, 100))}
    # Wrong, right, right: precision 0, 1/2, 2/3; made to fall it is 2/3 at both steps.
    one = found(0, (1, 0.9, (400.0, 0, 500, 100)), (1, 0.8, TRUE), (1, 0.7, (200.0, 0, 300, 100)))
    assert detection_precisions({0: one}, truths)[1] == pytest.approx(2 / 3)


def test_a_detection_takes_the_free_box_of_highest_overlap_across_images_by_score() -> None:
    truths = {0: Truth(0, (1, 1), (*TRUE, 20.0, 0, 120, 100)), 1: Truth(1, (2,), TRUE)}
    ours = {0: found(0, (1, 0.9, (15.0, 0, 115, 100)), (1, 0.8, TRUE)), 1: found(1, (2, 0.1, TRUE), (1, 0.95, TRUE))}
    # Of class 1 the best detection is in image 1, which has none; then two right ones: precision 0, 1/2, 2/3.
    assert detection_precisions(ours, truths) == {1: pytest.approx(2 / 3), 2: 1.0}
    assert detection_precisions({}, truths) == {1: 0.0, 2: 0.0}


def test_the_same_objects_have_one_partner_each() -> None:
    reference = found(0, (1, 0.9, TRUE), (2, 0.6, (200.0, 0, 300, 100)), (3, 0.4, TRUE))
    moved = found(0, (2, 0.7, (201.0, 0, 301, 100)), (1, 0.8, (5.0, 0, 105, 100)))
    assert same_objects(moved, reference)
    for other in (
        found(0, (1, 0.9, TRUE)),
        found(0, (1, 0.9, TRUE), (4, 0.6, (200.0, 0, 300, 100))),
        found(0, (1, 0.9, TRUE), (2, 0.6, (260.0, 0, 360, 100))),
        found(0, (1, 0.9, TRUE), (1, 0.9, TRUE)),
    ):
        assert not same_objects(other, reference)


def test_coco_precision_is_pycocotools() -> None:
    pytest.importorskip("pycocotools")
    truths = {0: Truth(0, (1,), TRUE), 1: Truth(1, (1,), TRUE)}
    # One box is exact, the other overlaps by 0.72: right for the five thresholds up to 0.7 of ten.
    ours = {0: found(0, (1, 0.9, TRUE)), 1: found(1, (1, 0.8, (0.0, 0, 100, 72)))}
    mean, half = coco_precision(ours, truths) or (0.0, 0.0)
    # COCO samples recall at 101 points: above 0.72 only those up to 0.5 are reached.
    assert half == pytest.approx(1.0) and mean == pytest.approx((5 * 1 + 5 * 51 / 101) / 10)
    assert coco_precision({}, truths) == (0.0, 0.0)
