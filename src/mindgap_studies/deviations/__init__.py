"""Runs the study of "Causes and Effects of Unanticipated Numerical Deviations" (NeurIPS 2023).

Input: outputs of models on many platforms, published or one's own. Output: tables of classes, determinism and
remaining precision, under the paper's definitions and under ours.
"""
