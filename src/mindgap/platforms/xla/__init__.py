"""The step between PyTorch and XLA's code for `xla/eager`, to find the stage of a fault; the platform itself is
`mindgap.platforms.eager:XLA`.
"""
