"""Other Python environments in which workers run: on this machine, another version of a runtime, of PyTorch, of Python;
and hosts, which are other machines.

Comes in: requirements, the name of a recipe, the interpreter of an environment that exists, or the command of a host.
Goes out: records under `home()`, and command lines and connections that run a module of mindgap there. On this machine
nothing of mindgap is installed in an environment: workers load the package that started them, so that both sides always
speak the same protocol. On a host mindgap is installed, and its version is checked. Of platforms, this package knows
nothing.
"""

from mindgap.platforms.environments.environment import (
    Environment,
    EnvironmentProblem,
    InterpreterFacts,
    environments,
    find,
)
from mindgap.platforms.environments.host import Host, HostProblem, find_host, hosts
from mindgap.platforms.environments.recipe import EnvironmentRecipe, made_environment, read_recipe

__all__ = [
    "Environment",
    "EnvironmentProblem",
    "EnvironmentRecipe",
    "Host",
    "HostProblem",
    "InterpreterFacts",
    "environments",
    "find",
    "find_host",
    "hosts",
    "made_environment",
    "read_recipe",
]  # fmt: skip
