"""Opens `diffusers:CLASS`: networks of diffusers, built from small configurations.

Comes in: a class name. Goes out: a seeded program. Rules shrink the sizes (`shrinking`) and make the inputs
(`inputs`); tables hold what the rules cannot know (`cases`, `transformer_cases`).
"""
