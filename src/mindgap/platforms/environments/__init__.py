"""Other Python environments on this machine, in which workers run: another version of a runtime, of PyTorch, of Python.

Comes in: requirements, the name of a recipe, or the interpreter of an environment that exists. Goes out: records under
`home()`, and command lines that run a module of this mindgap with another interpreter. Nothing of mindgap is installed
there: workers load the package that started them, so that both sides always speak the same protocol. Of platforms,
this package knows nothing.
"""

from mindgap.platforms.environments.environment import (
    Environment,
    EnvironmentProblem,
    InterpreterFacts,
    environments,
    find,
)
from mindgap.platforms.environments.recipe import EnvironmentRecipe, made_environment, read_recipe

__all__ = [
    "Environment",
    "EnvironmentProblem",
    "EnvironmentRecipe",
    "InterpreterFacts",
    "environments",
    "find",
    "made_environment",
    "read_recipe",
]  # fmt: skip
