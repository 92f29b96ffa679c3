"""Chooses input values that every operator of a graph accepts.

Input: a graph without values for its borders. Output: recipes. What operators require of their operands stands in
`values.toml`.
"""
