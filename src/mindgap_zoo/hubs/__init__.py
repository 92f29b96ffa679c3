"""Opens published models: `hub:` (Hugging Face) and `torchhub:` (repositories with a `hubconf.py`).

Comes in: a repository or a folder. Goes out: a program with trained weights from safetensors, or with seeded weights.
`hub:` never runs a repository's code; `torchhub:` does.
"""
