"""Reading and writing elements at indices or where a mask holds."""

from __future__ import annotations

from mindgap.graph.operators.operator_traits import Traits, family

INDEXING = family(
    "indexing",
    ("index_reduce scatter_reduce", Traits(intermediates="sums", rounds_each_step=True)),
    ("index_add scatter_add", Traits(intermediates="sums")),
    (
        "_embedding_bag _embedding_bag_forward_only embedding_bag",
        Traits(internal_outputs=(1, 2, 3), kernel_chosen_outputs=(1,)),
    ),
    ("where", Traits(moves_data=True, fills=True)),
    ("embedding gather index index_select", Traits(moves_data=True, looks_up=True)),
    (
        "_unsafe_index diagonal_scatter masked_select select_scatter slice_scatter take take_along_dim tril triu",
        Traits(moves_data=True),
    ),
    ("_unsafe_index_put index_copy index_put put scatter", Traits(undefined_where="index written twice")),
    (
        "_embedding_bag_backward _embedding_bag_dense_backward _embedding_bag_per_sample_weights_backward "
        "_unsafe_masked_index _unsafe_masked_index_put_accumulate as_strided_scatter embedding_dense_backward "
        "index_fill masked_fill masked_scatter masked_scatter_backward one_hot",
        Traits(),
    ),
)
