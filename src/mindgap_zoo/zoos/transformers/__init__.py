"""Opens `transformers:NAME`: models of transformers, built from small configurations.

Comes in: a class name or a model type. Goes out: a seeded program that has run once. Rules shrink configurations
(`shrinking`) and make arguments (`arguments`); a table holds the exceptions to both (`overrides`).
"""
