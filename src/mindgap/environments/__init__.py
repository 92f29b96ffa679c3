"""Other Python environments on this machine, in which workers run: another version of a runtime, of PyTorch, of Python.

Comes in: requirements, or the interpreter of an environment that exists. Goes out: records under `home()`, and command
lines that run a module of this mindgap with another interpreter. Nothing of mindgap is installed there: workers load
the package that started them, so that both sides always speak the same protocol. This package knows no platform.
"""

from mindgap.environments.environment import Environment, EnvironmentProblem, Facts, environments, find

__all__ = ["Environment", "EnvironmentProblem", "Facts", "environments", "find"]
