"""Other Python environments on this machine, in which workers run: another version of a runtime, of PyTorch, of Python.

Comes in: requirements, the name of a recipe, or the interpreter of an environment that exists. Goes out: records under
`home()`, and command lines that run a module of this mindgap with another interpreter. Nothing of mindgap is installed
there: workers load the package that started them, so that both sides always speak the same protocol. Of platforms,
this package knows the names that recipes list.
"""

from mindgap.platforms.environments.environment import Environment, EnvironmentProblem, Facts, environments, find
from mindgap.platforms.environments.recipe import Recipe, find_recipe, recipe_of, recipes

__all__ = [
    "Environment", "EnvironmentProblem", "Facts", "Recipe", "environments", "find", "find_recipe", "recipe_of",
    "recipes",
]  # fmt: skip
