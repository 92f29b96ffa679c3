"""PyTorch as a runtime: `eager`, `jit`, `inductor`, `aotinductor`, `dynamo` are its platforms on every device.

What they share:

- `device`: which devices exist, whether one is available, options and switches put in force and checked.
- `execution`: a graph run operator by operator; arrays bound to tensors; layouts, float64 and gradients.
- `compilation`: a graph as an FX module, compiled whole by `torch.compile`, TorchScript or `torch.export`.
- `ahead_of_time`: many graphs compiled by AOTInductor into one library.
- `messages`, `refusals`: which of PyTorch's errors mean "not supported".
"""
