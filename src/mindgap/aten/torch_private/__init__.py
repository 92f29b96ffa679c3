"""Every private PyTorch API that mindgap uses, one module per topic. No other package imports a private name of torch.

Comes in: nothing but torch. Goes out: PyTorch's own objects under names that mindgap chose, or small functions around
them. This package must not know mindgap's operators, platforms or verdicts. Each symbol has a smoke test in
`tests/mindgap/aten/torch_private`, so that a new PyTorch version fails there first; docs/architecture.md has the steps
to move.
"""
