"""Implements `mindgap campaign`, `causes`, `corpus`, `synth`, `selftest`, `metamorphic` and `demo`."""
