"""What the documentation of PyTorch demands of operands and arguments, where eager PyTorch does not check it.

A graph that breaks a demand has no defined result: what a platform makes of it is no finding. Each row names its
source. What eager PyTorch checks itself (shapes, indices in range, most probabilities) is not repeated here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

#: What the elements of an argument must be.
#:
#: - `interval`: each is within [low, high].
#: - `sorted`: never falling along the last dimension.
#: - `offsets`: starts at 0, never falls, ends at the number of indices at most.
#: - `plane`: positions within the argument `output_size`, no place twice in one plane.
#: - `hermitian`: each matrix equals its conjugate transpose, up to rounding; `positive definite`: that too.
#: - `triangular`: each matrix is lower or upper triangular.
#: - `pivots`: from 1 to the number of rows.
#: - `labels`: classes other than `blank`, as many as `log_probs` has.
#: - `at most`: no element is larger than that of the argument `of`.
Demand = Literal[
    "interval", "sorted", "offsets", "plane", "hermitian", "positive definite", "triangular", "pivots", "labels",
    "at most",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Precondition:
    """One demand on an argument of an operator.

    - `argument`: its name in the schema.
    - `low`, `high`: of an interval.
    - `of`: the other argument of `at most`.
    - `when`: an argument that must be true for the demand to hold; `unless`: one that must be absent. Empty for none.
    - `kinds`: kinds of dtype that it applies to (`float`), any where empty.
    - `source`: the page of PyTorch's documentation.
    """

    argument: str
    demand: Demand
    source: str
    low: float = -math.inf
    high: float = math.inf
    of: str = ""
    when: str = ""
    unless: str = ""
    kinds: tuple[str, ...] = ()


_BATCH_NORM: Final = (
    Precondition("momentum", "interval", "torch.nn.BatchNorm2d: (1 - momentum) * old + momentum * new", 0, 1),
    Precondition("running_var", "interval", "torch.nn.BatchNorm2d: a variance", 0, unless="training"),
    Precondition("eps", "interval", "torch.nn.BatchNorm2d: added for numerical stability", 0),
)
_BAGS: Final = (Precondition("offsets", "offsets", "torch.nn.functional.embedding_bag: starting index of each bag"),)
_UNPOOL: Final = (Precondition("indices", "plane", "torch.nn.MaxUnpool2d: takes the indices of MaxPool2d"),)
_EIGH: Final = "torch.linalg.eigh: a complex Hermitian or real symmetric matrix"
_CHOLESKY: Final = "torch.linalg.cholesky: a Hermitian or symmetric positive-definite matrix"
_CTC: Final = "torch.nn.CTCLoss"


def _each(names: str, *rows: Precondition) -> dict[str, tuple[Precondition, ...]]:
    return dict.fromkeys(names.split(), rows)


#: By packet.
_TABLE: Final[Mapping[str, tuple[Precondition, ...]]] = {
    **_each(
        "batch_norm native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training "
        "_native_batch_norm_legit_functional _batch_norm_with_update _batch_norm_with_update_functional "
        "_batch_norm_no_update _batch_norm_impl_index instance_norm cudnn_batch_norm",
        *_BATCH_NORM,
    ),
    **_each("embedding_bag _embedding_bag _embedding_bag_forward_only", *_BAGS),
    **_each("max_unpool2d max_unpool3d", *_UNPOOL),
    **_each("bucketize", Precondition("boundaries", "sorted", "torch.bucketize: must be strictly increasing")),
    **_each(
        "searchsorted",
        Precondition("sorted_sequence", "sorted", "torch.searchsorted: monotonically increasing", unless="sorter"),
    ),
    **_each("histogram", Precondition("bins", "sorted", "torch.histogram: increasing sequence of bin edges")),
    **_each(
        "linalg_pinv", Precondition("self", "hermitian", "torch.linalg.pinv: hermitian=True", when="hermitian")
    ),
    **_each(
        "linalg_matrix_rank",
        Precondition("self", "hermitian", "torch.linalg.matrix_rank: hermitian=True", when="hermitian"),
        Precondition("input", "hermitian", "torch.linalg.matrix_rank: hermitian=True", when="hermitian"),
    ),
    **_each(
        "linalg_eigh linalg_eigvalsh _linalg_eigh",
        Precondition("self", "hermitian", _EIGH),
        Precondition("A", "hermitian", _EIGH),
    ),
    **_each(
        "linalg_ldl_factor linalg_ldl_factor_ex",
        Precondition("self", "hermitian", "torch.linalg.ldl_factor: a Hermitian or symmetric matrix"),
    ),
    **_each(
        "linalg_cholesky linalg_cholesky_ex cholesky",
        Precondition("self", "positive definite", _CHOLESKY),
        Precondition("input", "positive definite", _CHOLESKY),
    ),
    **_each("cholesky_inverse", Precondition("self", "triangular", "torch.cholesky_inverse: a Cholesky factor")),
    **_each("cholesky_solve", Precondition("input2", "triangular", "torch.cholesky_solve: a Cholesky factor")),
    **_each("linalg_lu_solve", Precondition("pivots", "pivots", "torch.linalg.lu_solve: the pivots of lu_factor")),
    **_each("lu_solve", Precondition("LU_pivots", "pivots", "torch.lu_solve: the pivots of lu_factor")),
    **_each(
        "binary_cross_entropy_with_logits",
        Precondition("target", "interval", "torch.nn.BCEWithLogitsLoss: targets are numbers between 0 and 1", 0, 1),
    ),
    **_each(
        "cross_entropy_loss",
        Precondition("target", "interval", "torch.nn.CrossEntropyLoss: probabilities", 0, 1, kinds=("float",)),
    ),
    **_each(
        "ctc_loss _ctc_loss",
        Precondition("targets", "labels", f"{_CTC}: the target index cannot be blank"),
        Precondition("target_lengths", "at most", f"{_CTC}: targets are no longer than inputs", of="input_lengths"),
    ),
}  # fmt: skip


@cache
def preconditions(op: str) -> tuple[Precondition, ...]:
    """Returns what the documentation demands of an overload's arguments (`aten.bucketize.Tensor`)."""
    return _TABLE.get(op.split(".")[1], ()) if op.count(".") == 2 else ()
