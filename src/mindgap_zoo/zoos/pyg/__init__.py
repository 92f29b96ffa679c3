"""Opens `pyg:CLASS`: layers and models of PyTorch Geometric on one fixed example graph.

Comes in: a class name. Goes out: a seeded program. A table (`layer_cases`) holds constructor arguments and inputs that
rules cannot derive.
"""
