"""Writes a short script that runs the operator of a fault by itself."""

from __future__ import annotations

from dataclasses import replace
from platform import python_version
from typing import TYPE_CHECKING

from mindgap.findings.script.script_platform import ScriptPlatform, packages_of
from mindgap.platforms.environments import Environment, HostProblem
from mindgap.platforms.listing import package_versions
from mindgap.platforms.name import PlatformName
from mindgap.platforms.other_environment import BackendInEnvironment, declared, python_in
from mindgap.platforms.protocol import NotNative
from mindgap.platforms.registry import environment, find

if TYPE_CHECKING:
    from mindgap.judge.trace.judgement import FoundFault


def script_platform_of(platform: PlatformName) -> ScriptPlatform:
    """The platform as a script runs it, with the environment variables that its worker starts with.

    No script can run one that is named by its module.
    """
    if platform.is_import_path:
        return ScriptPlatform.of(platform)
    backend, _ = find(platform)
    variables = environment(platform, backend)
    where = backend.where if isinstance(backend, BackendInEnvironment) else None
    python = python_version() if where is None else python_in(where)
    versions = {**package_versions(platform, packages_of(platform.device_mode)), "python": python}
    made = ScriptPlatform.of(platform, variables, where.python if isinstance(where, Environment) else "", versions)
    made = replace(made, host=platform.host)
    inner = declared(backend)
    if isinstance(where, Environment) and where.emulation is not None:
        made = replace(made, execution=where.emulation.words, made_by=where.creation)
    elif isinstance(inner, NotNative):
        made = replace(made, execution=inner.execution)
    return made


def culprit_script(platform: PlatformName, found: FoundFault, reference: PlatformName) -> str:
    """The script of a fault; empty where its operator or the platform has no short form. It was not run."""
    fault, alone = found.fault, found.alone
    if alone is None or fault.culprit is None or reference != "cpu/eager" or platform.is_import_path:
        return ""
    title = f"{platform} and eager PyTorch differ: {fault.culprit.op}: {fault.verdict.replace('_', ' ')}"
    from mindgap.findings.script.form import NoShortScript
    from mindgap.findings.script.short import short_script  # imports PyTorch

    wrong, kind = fault.blame or "undecided", "shape" if fault.verdict == "structural" else "wrong"
    there = script_platform_of(platform)
    try:
        return short_script(alone.graph, there, title, wrong=wrong, kind=kind, inputs=alone.inputs)
    except (NoShortScript, HostProblem):  # the finding stays where its host is gone
        return ""
