"""Recurrent cells and layers."""

from __future__ import annotations

from mindgap.graph.operators.operator_traits import Traits, family

RECURRENT = family(
    "recurrent",
    ("gru gru_cell lstm lstm_cell rnn_relu rnn_tanh", Traits(contracts=True)),
    ("_thnn_fused_gru_cell", Traits(internal_outputs=(1,))),
    ("_thnn_fused_lstm_cell", Traits(internal_outputs=(2,))),
    ("_cudnn_rnn miopen_rnn", Traits(internal_outputs=(3, 4))),
    ("_lstm_mps", Traits(internal_outputs=(3, 4, 5))),
    ("mkldnn_rnn_layer", Traits(internal_outputs=(3,))),
    ("rnn_relu_cell rnn_tanh_cell", Traits()),
)
