"""Opens models of libraries: timm, torchvision, pytorchcv, OpenCLIP, transformers, diffusers, PyTorch Geometric.

Comes in: a source such as `timm:resnet18`. Goes out: a program with seeded weights and seeded inputs, small enough to
run on a laptop. Must not know: platforms, verdicts. Nothing is downloaded.
"""
