"""Implements `mindgap env`, the other environments in which platforms run."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from mindgap.cli.streams import Exit, complain, result_stream
from mindgap.cli.tables import console, plain_table
from mindgap.platforms.environments import Environment, EnvironmentProblem, environments, find
from mindgap.platforms.environments.emulated import (
    arithmetic_words,
    check_emulated_arithmetic,
    create_emulated,
    known_arithmetic,
    wrong_arithmetic,
)
from mindgap.platforms.environments.recipe import architecture_recipe
from mindgap.platforms.host_runtime import HostRuntime
from mindgap.platforms.listing import PlatformInfo, find_recipe, platform_info, recipes, requirements_elsewhere
from mindgap.platforms.name import parse
from mindgap.platforms.protocol import NotOnThisMachine
from mindgap.platforms.registry import registered
from mindgap.platforms.simulated_arithmetic import checked_words, kept_arithmetic, not_exact


def platforms(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PLATFORM]…", help="Show only these, with their options."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per platform, in a list.")] = False,
    ask_hosts: Annotated[
        bool, typer.Option("--hosts", help="Connect to the hosts of mindgap.toml, and list their platforms.")
    ] = False,
    ray: Annotated[
        bool, typer.Option("--ray-resources", help="The JSON for ray start --resources on this machine, nothing else.")
    ] = False,
) -> None:
    """List every platform: first those that run here (in which environment, if not mindgap's own), with versions, then
    the others, with the reason. Hosts of a mindgap.toml are named; --hosts runs their commands, lists theirs.

    Example: mindgap platforms onnxruntime/cpu
    """
    with result_stream() as out:
        from mindgap.platforms.listing import known_hosts, list_hosts, list_platforms

        if ray:
            here = {str(info.platform): 1 for info in list_platforms() if info.available}
            out.write(json.dumps(here) + "\n")
            return
        if names:
            infos = [platform_info(parse(name)) for name in names]
        else:
            infos = [*list_platforms(), *(list_hosts() if ask_hosts else known_hosts())]
        if as_json:
            json.dump([dataclasses.asdict(info) for info in infos], out, indent=1, default=str)
            out.write("\n")
        else:
            (_print_each if names else _print_all)(console(out), infos)


def _print_all(out: Console, infos: Sequence[PlatformInfo]) -> None:
    there = plain_table("platform", "in", "versions")
    for info in infos:
        if info.available:
            notes = ", ".join(filter(None, (_versions(info), info.execution, info.arithmetic)))
            there.add_row(info.platform, info.environment, notes)
    out.print(there)
    absent: dict[str, list[str]] = {}
    for info in infos:
        if not info.available:
            absent.setdefault(info.reason, []).append(info.platform)
    why = plain_table("not here", "why")
    for reason, named in absent.items():
        why.add_row("\n".join(named), Text(reason))
    out.print("", why, "", "mindgap platforms PLATFORM shows its options", sep="\n")


def _print_each(out: Console, infos: Sequence[PlatformInfo]) -> None:
    for info in infos:
        table = plain_table(info.platform, "")
        words = {"versions": _versions(info), "environment": info.environment, "hardware": info.hardware}
        words |= {"execution": info.execution, "arithmetic": info.arithmetic, "not here": info.reason}
        for name, text in {**words, **{f"@{name}=": text for name, text in info.options.items()}}.items():
            if text:
                table.add_row(name, Text(text))
        out.print(table)


def _versions(info: PlatformInfo) -> str:
    return ", ".join(f"{name} {version}" for name, version in info.versions.items())


env = typer.Typer(
    no_args_is_help=True,
    help="Other versions of runtimes, PyTorch and Python, as platforms: onnxruntime/cpu@env=NAME.",
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Letters, digits, '.', '_' and '-'.")]
AsJson = Annotated[bool, typer.Option("--json", help="One object per environment, in a list.")]


@env.command()
def create(
    name: Name,
    requirements: Annotated[
        list[str] | None, typer.Argument(metavar="REQUIREMENT…", help="What to install, as pip takes it.")
    ] = None,
    python: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Alone: adopt the environment of this interpreter, which is not changed. With requirements: make the "
            "environment with it.",
        ),
    ] = None,
    isolated: Annotated[bool, typer.Option("--isolated", help="Take nothing from mindgap's own environment.")] = False,
    arch: Annotated[
        str | None,
        typer.Option(metavar="ARCHITECTURE", help="Emulate a processor of this architecture (aarch64)."),
    ] = None,
    cpu: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Emulate this processor (Haswell, cortex-a72; QEMU's names).")
    ] = None,
) -> None:
    """Make an environment, or adopt one that exists.

    With mindgap's own Python, packages that are not requested come from mindgap's own environment: another version of
    one runtime takes seconds. With --isolated or --python the environment stands alone.
    A name that `mindgap env recipes` lists needs no requirements; arm64-RECIPE is its runtime on an emulated Arm64.
    With --cpu or --arch, its Python runs on an emulated processor, whose arithmetic is checked first.

    Example: mindgap env create ort128 'onnxruntime==1.28.0'
    """
    from mindgap.platforms.environments import installation

    if arch or cpu or architecture_recipe(name):
        if python is not None or isolated:
            raise EnvironmentProblem("--python and --isolated do not go with an emulated processor (--arch, --cpu)")
        if architecture_recipe(name) and not (requirements or arch):
            requirements = requirements_elsewhere(runtime) if (runtime := name.partition("-")[2]) else []
        made = create_emulated(name, requirements or (), arch, cpu, complain)
    elif requirements:
        made = installation.create(name, requirements, python, isolated=isolated or python is not None, say=complain)
    elif python is not None:
        made = installation.adopt(name, python, complain)
    elif isolated:
        raise EnvironmentProblem("--isolated takes requirements: a recipe says what it shares with mindgap")
    else:
        made = installation.create_from_recipe(find_recipe(name), complain)
    with result_stream() as out:
        there = ", ".join(name for name, info in _platforms(made).items() if info["available"])
        out.write(f"environment {name}: {there or f'no platform runs there yet; see mindgap env check {name}'}\n")


@env.command("recipes")
def list_recipes(as_json: AsJson = False) -> None:
    """List the environments that mindgap knows how to make.

    Example: mindgap env recipes
    """
    with result_stream() as out:
        known = [*recipes().values()]
        if as_json:
            json.dump([{**asdict(each), "made": each.made is not None} for each in known], out, indent=1)
            out.write("\n")
            return
        table = plain_table("command", "platforms", "what it is", "download", "time", "made", "programs")
        for each in known:
            made = "yes" if each.made else "no"
            figures = f"{each.download_mb:g} MB", f"{each.seconds:g} s"
            table.add_row(each.command, ", ".join(each.platforms), each.about, *figures, made, ", ".join(each.programs))
        console(out).print(table)


@env.command("list")
def list_environments(as_json: AsJson = False) -> None:
    """List the environments.

    Example: mindgap env list
    """
    from mindgap.platforms.environments.environment import unfinished

    known = environments()
    with result_stream() as out:
        if as_json:
            kept = [{"folder": str(each.folder), "arithmetic": _kept_arithmetic(each)} for each in known]
            json.dump([{**asdict(each), **more} for each, more in zip(known, kept, strict=True)], out, indent=1)
            out.write("\n")
            return
        table = plain_table(
            "environment", "created with, or adopted from", "packages of mindgap behind its own", "processor"
        )
        for each in known:
            processor = f"{each.emulation.words}; {arithmetic_words(known_arithmetic(each))}" if each.emulation else ""
            processor = "; ".join([processor or "this machine's", *_kept(each)])
            made_from = " ".join(each.requirements) or each.python
            table.add_row(each.name, made_from, "yes" if each.layered else "no", processor)
        if known:
            console(out).print(table)
        else:
            out.write("no environment; `mindgap env recipes` lists those that one command makes\n")
    for name in unfinished():
        complain(f"environment {name} is not complete: its creation did not end; create it again, or remove it")


@env.command()
def check(
    names: Annotated[list[str] | None, typer.Argument(metavar="ENV…", help="Default: all.")] = None,
    platform: Annotated[
        list[str] | None,
        typer.Option("--platform", "-p", help="Check this platform's arithmetic (again), for minutes."),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Start each environment's interpreter, and say which platforms run there, with their versions.

    Of an emulated processor and of each simulated or emulated platform that the environment is made for, the arithmetic
    is compared with exact results, a million values of each operation. The answer is kept: a platform that was checked
    with the versions that are installed is not checked again, unless --platform names it.
    Exit status 2 where an environment cannot run a worker, or the arithmetic is not exact, or its check failed.

    Example: mindgap env check ort128
    """
    chosen = [find(name) for name in names] if names else environments()
    if not chosen:
        raise EnvironmentProblem("there is no environment to check; mindgap env create makes one")
    broken = 0
    objects: list[dict[str, Any]] = []
    with result_stream() as out:
        for each in chosen:
            try:
                facts = each.check()
            except EnvironmentProblem as error:
                broken += 1
                complain(str(error))
                objects.append({"name": each.name, "works": False, "reason": str(error)})
                continue
            platforms = _platforms(each)
            simulated, failed = _arithmetic(each, platform or (), platforms)
            objects.append(
                {
                    "name": each.name,
                    "works": True,
                    **asdict(facts),
                    "platforms": platforms,
                    "simulated": simulated,
                    "not_checked": failed,
                }
            )
            emulated = check_emulated_arithmetic(each) if each.emulation else []
            lines = wrong_arithmetic(emulated)
            lines += [f"NOT EXACT: {key}: {line}" for key, results in simulated.items() for line in not_exact(results)]
            lines += [f"NOT CHECKED: {reason}" for reason in failed.values()]
            if lines:
                broken += 1
                for line in lines:
                    complain(line)
            objects[-1]["arithmetic"] = [asdict(result) for result in emulated]
            if not as_json:
                console(out).print(_table(each, facts.python, platforms))
                for name, results in simulated.items():
                    out.writelines(f"{name}: {operation}: {text}\n" for operation, text in results.items())
                    out.write(f"{name}: {checked_words(results)}\n")
                if each.emulation:
                    out.write(f"{each.emulation.words}: {arithmetic_words(emulated)}\n")
        if as_json:
            json.dump(objects, out, indent=1)
            out.write("\n")
    return Exit.WRONG_USE if broken else Exit.NOTHING_FOUND


@env.command()
def remove(name: Annotated[str, typer.Argument(metavar="ENV", help="As `mindgap env list` names it.")]) -> None:
    """Delete an environment that `create` made, or forget an adopted one, which stays as it is.

    Example: mindgap env remove ort128
    """
    from mindgap.platforms.environments import installation

    folder = installation.remove(name)
    with result_stream() as out:
        out.write(f"deleted {folder}\n")


def _platforms(where: Environment) -> dict[str, dict[str, Any]]:
    """The platforms that are available in the environment, or in mindgap's own: no device is missing for these."""
    from mindgap.platforms.listing import list_platforms
    from mindgap.platforms.other_environment import probe_all
    from mindgap.platforms.registry import places

    here = {info.platform for info in list_platforms(()) if info.available}
    registered = places()
    availability = probe_all(where, [*registered.values()])
    return {
        f"{name}@env={where.name}": asdict(availability[place])
        for name, place in registered.items()
        if availability[place].available or name in here
    }


def _arithmetic(
    where: Environment, asked: Iterable[str], there: Mapping[str, dict[str, Any]]
) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """How exact the requested platforms compute in the environment, by operation, and those that no hardware runs and
    that it is made for; of the latter, what is kept of an earlier check. And why checks of the latter failed.

    A software driver that this machine lacks is no failure. Raises `EnvironmentProblem` for a requested platform that
    does not run there and where its check fails, `PlatformError` for a name that is none.
    """
    from mindgap.platforms.name import parse
    from mindgap.platforms.registry import find as find_platform, places
    from mindgap.platforms.simulated_arithmetic import check_in_environment

    kept = kept_arithmetic(where.name, lambda packages: where.versions(*packages))
    available = {name.partition("@")[0] for name, answer in there.items() if answer["available"]}
    own = [name for name in _unlike_hardware(where) if name.partition("@")[0] in available]
    arithmetic = {name: kept[name] for name in own if name in kept and name not in asked}
    failed = dict[str, str]()
    for name in (*asked, *(each for each in own if each not in arithmetic and each not in asked)):
        platform = parse(name)
        if not there.get(f"{platform.device_mode}@env={where.name}", {}).get("available"):
            raise EnvironmentProblem(f"{platform.device_mode} does not run in environment {where.name}")
        try:
            backend, _ = find_platform(platform)
            complain(f"checking the arithmetic of {platform}")
            arithmetic[name] = check_in_environment(where, platform, backend, places()[platform.device_mode])
        except (NotOnThisMachine, EnvironmentProblem) as error:
            if name in asked:
                raise
            if isinstance(error, EnvironmentProblem):
                failed[name] = str(error)
            else:
                complain(f"the arithmetic of {name} is not checked: {error}")
    return arithmetic, failed


def _unlike_hardware(where: Environment) -> list[str]:
    """The platforms of an environment's recipe that no hardware of their kind runs: simulated ones, and those with a
    software driver, by its option."""
    recipe = recipes().get(where.name)
    names = list[str]()
    for name in () if recipe is None or where.emulation else recipe.platforms:
        backend = registered(name)
        if not isinstance(backend, HostRuntime):
            continue
        drivers = next((each.values[1:2] for each in backend.declared if each.name == "device"), ())
        names += [name] if backend.execution else [f"{name}@device={each}" for each in drivers]
    return names


def _kept(where: Environment) -> list[str]:
    """What is known of the arithmetic of the platforms that no hardware runs there, one text each."""
    kept = _kept_arithmetic(where)
    return [f"{name}: {checked_words(kept.get(name, {}))}" for name in dict.fromkeys((*_unlike_hardware(where), *kept))]


def _kept_arithmetic(where: Environment) -> dict[str, dict[str, str]]:
    """What is kept of the versions that are installed; nothing where the environment does not tell them."""
    try:
        return kept_arithmetic(where.name, lambda packages: where.versions(*packages))
    except EnvironmentProblem:
        return {}


def _table(where: Environment, python: str, platforms: dict[str, dict[str, Any]]) -> Any:
    table = plain_table("platform", "there", "versions, or why not", title=f"{where.name}: Python {python}")
    for name, info in platforms.items():
        versions = ", ".join(f"{package} {version}" for package, version in info["versions"].items())
        table.add_row(name, *(("yes", versions) if info["available"] else ("no", info["reason"])))
    return table
