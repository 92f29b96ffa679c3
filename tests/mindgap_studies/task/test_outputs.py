"""Outputs as answers to a task, compared with PyTorch's functions; and outputs that are none."""

import numpy as np
import pytest
import torch

from mindgap.graph import MindgapError
from mindgap_studies.results.predictions import NOT_FINITE, Truth
from mindgap_studies.task_runs.outputs import check_outputs, like_probabilities, predictions_of

LOGITS = np.array([[1.0, 4.0, 3.5, -2.0, 0.0, 2.0], [0.0, 0.0, 0.0, 9.0, 0.0, 0.0]], np.float32)
TRUTHS = [Truth(7, (2,)), Truth(8, (3,))]


def test_labels_margin_confidence_and_loss_are_pytorchs() -> None:
    other = LOGITS + np.float32([[0, 0, 0.25, 0, 0, 0], [0] * 6])
    first, second = predictions_of("classification", [LOGITS], [other], TRUTHS)
    expected = torch.nn.functional.cross_entropy(torch.tensor(LOGITS[:1]), torch.tensor([2]))
    assert (first.sample, first.labels, first.margin) == (7, (1, 2, 5, 0, 4), 0.5)
    assert first.loss == pytest.approx(float(expected), rel=1e-6)
    assert first.confidence == pytest.approx(float(torch.softmax(torch.tensor(LOGITS[0]), 0)[1]), rel=1e-6)
    assert (first.deviation, second.deviation) == (0.25, 0.0)
    # Of equal outputs the first counts, on every platform.
    assert second.labels == (3, 0, 1, 2, 4)


def test_probabilities_are_not_normalised_again() -> None:
    shares = np.array([[0.7, 0.2, 0.1], [0.05, 0.05, 0.9]])
    one, two = predictions_of("classification", [shares], [shares], [Truth(0, (1,)), Truth(1, (2,))])
    assert one.confidence == pytest.approx(0.7) and one.loss == pytest.approx(-np.log(0.2))
    assert two.margin == pytest.approx(0.85)
    # A row of logits that sums to 1 by chance is one among others.
    mixed = np.array([[1.0, 0.0], [5.0, 2.0]])
    first, _ = predictions_of("classification", [mixed], [mixed], [Truth(0, (0,)), Truth(1, (0,))])
    assert first.confidence == pytest.approx(1 / (1 + np.exp(-1)))


def test_a_text_has_the_best_token_at_each_position() -> None:
    logits = torch.randn(1, 4, 9, generator=torch.Generator().manual_seed(0)).double()
    (one,) = predictions_of("language", [logits.numpy()], [logits.numpy()], [Truth(0, (1, 2, 3, 4))])
    assert one.labels == tuple(logits[0].argmax(1).tolist())
    loss = torch.nn.functional.cross_entropy(logits[0], torch.tensor([1, 2, 3, 4]))
    assert one.loss == pytest.approx(float(loss), rel=1e-12)
    best, second = logits[0].topk(2).values.T
    assert one.margin == pytest.approx(float((best - second).min()))


@pytest.mark.parametrize("dense", [True, False])
def test_detections_come_best_first_without_empty_ones(dense: bool) -> None:
    boxes = np.arange(12.0).reshape(1, 3, 4)
    if dense:
        outputs = [boxes, np.array([[[0.1, 0.0], [0.0, 0.9], [0.3, 0.4]]])]
        expected = [(1, 0.9, 1), (1, 0.4, 2), (0, 0.3, 2), (0, 0.1, 0)]
    else:
        outputs = [boxes, np.array([[0.1, 0.0, 0.3]]), np.array([[5, 6, 7]])]
        expected = [(7, 0.3, 2), (5, 0.1, 0)]
    (one,) = predictions_of("detection", outputs, outputs, [Truth(0, ())])
    assert list(zip(one.labels, one.scores, strict=True)) == [(label, score) for label, score, _ in expected]
    assert one.boxes == tuple(side for _, _, row in expected for side in boxes[0, row])


def test_what_is_not_finite_has_no_label_and_leaves_other_samples_alone() -> None:
    wrong = LOGITS.copy()
    wrong[1, 0] = np.nan
    first, second = predictions_of("classification", [wrong], [LOGITS], TRUTHS)
    assert first.labels == (1, 2, 5, 0, 4) and first.finite
    assert second.labels == (NOT_FINITE,) and not second.finite and second.deviation == second.loss == np.inf
    (text,) = predictions_of("language", [wrong[None]], [LOGITS[None]], [Truth(0, (1, 3))])
    assert text.labels == (1, NOT_FINITE) and not text.finite
    boxes, scores = np.zeros((1, 2, 4)), np.array([[[0.9], [np.inf]]])
    (one,) = predictions_of("detection", [boxes, scores], [boxes, scores], [Truth(0, ())])
    assert one.labels == (NOT_FINITE,)


def test_a_form_without_the_softmax_of_the_model_gets_one() -> None:
    logits = np.array([[2.0, 0.0, -1.0], [0.0, 1.0, 3.0]])
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    truths = [Truth(0, (0,)), Truth(1, (2,))]
    (expected, _) = predictions_of("classification", [shares], [shares], truths)
    for ours, reference in ((logits, shares), (shares, logits), (np.vstack([shares[0], [np.nan] * 3]), shares)):
        found = predictions_of("classification", [ours], [reference], truths)
        assert found[0].confidence == pytest.approx(expected.confidence)
    # The steps of an int8 softmax do not sum to 1.
    assert like_probabilities(np.round(shares * 16) / 16 * 0.97, True) and not like_probabilities(logits, True)


@pytest.mark.parametrize(
    ("task", "outputs", "says"),
    [
        (
            "classification",
            [((4,), "int64")],
            r"no logits: its first output is int64\[4\]: give floats \[batch, classes\]",
        ),
        ("classification", [((4, 1), "float32")], "two classes or more"),
        ("classification", [((4, 3, 5), "float32")], "no logits"),
        ("classification", [((8, 3), "float32")], "no logits"),
        ("classification", [], "no logits: its first output is nothing"),
        ("language", [((4, 9), "float32")], r"give floats \[batch, tokens, vocabulary\]"),
        ("localisation", [((4, 9), "float32")], "gives no boxes: its second output is missing"),
        ("localisation", [((4, 9), "float32"), ((4, 8, 4), "float32")], r"second output is \[4, 8, 4\]"),
        ("detection", [((4, 9, 4), "float32")], "no detections"),
        ("detection", [((4, 9, 4), "float32"), ((4, 9), "float32")], "no detections"),
        ("detection", [((4, 9, 5), "float32"), ((4, 9, 3), "float32")], "no detections"),
    ],
)
def test_outputs_that_are_no_answer_are_refused(task, outputs, says) -> None:
    with pytest.raises(MindgapError, match=says):
        check_outputs(task, outputs, 4)


@pytest.mark.parametrize(
    ("task", "outputs"),
    [
        ("classification", [((4, 2), "bfloat16"), ((1,), "int64")]),
        ("language", [((4, 9, 30), "float16")]),
        ("localisation", [((4, 9), "float32"), ((4, 9, 4), "float32")]),
        ("localisation", [((4, 9), "float32"), ((4, 4), "float32")]),
        ("detection", [((4, 9, 4), "float32"), ((4, 9, 3), "float32")]),
        ("detection", [((4, 9, 4), "float32"), ((4, 9), "float32"), ((4, 9), "int64")]),
    ],
)
def test_outputs_that_are_answers_pass(task, outputs) -> None:
    check_outputs(task, outputs, 4)
