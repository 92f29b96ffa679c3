"""Implements `mindgap corpus`, which builds, lists, shows and counts a catalogue of graphs."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer
from rich.table import Table

from mindgap.cli.numbers import finite
from mindgap.cli.outputs import check_directory, check_files, write_file
from mindgap.cli.progress import counting
from mindgap.cli.streams import result_stream
from mindgap.cli.tables import console
from mindgap.graph import MindgapError, TensorStore, default_tensor_store

if TYPE_CHECKING:
    from mindgap_campaign.catalogue import BuildProgress, CapturePlace, Catalogue, CatalogueStats, Entry, Pass

corpus = typer.Typer(
    no_args_is_help=True, help="A catalogue of real models as graphs: built once, deduplicated by structure."
)
Directory = Annotated[Path, typer.Argument(metavar="CATALOGUE", help="The directory of the catalogue.")]
AsJson = Annotated[bool, typer.Option("--json", help="As JSON.")]
OfPass = Annotated[str, typer.Option("--pass", metavar="PASS", help="forward, backward, sgd or adamw.")]
#: Reasons that the table shows; `corpus list --failed` has every one.
_MOST_REASONS = 25


@corpus.command()
def build(
    directory: Directory,
    patterns: Annotated[
        list[str] | None,
        typer.Argument(metavar="SOURCE…", help="timm:*, records:FILE.parquet, ops:add …; all zoos if there is none."),
    ] = None,
    passes: Annotated[
        list[str] | None,
        typer.Option("--pass", metavar="PASS", help="Besides forward: backward, sgd, adamw. May be repeated."),
    ] = None,
    jobs: Annotated[int | None, typer.Option("-j", "--jobs", min=1, help="Models at a time (default: 2).")] = None,
    ray: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS", help="Capture on the nodes of a Ray cluster: HOST:PORT, ray://HOST:PORT, auto."
        ),
    ] = "",
    cpu: Annotated[
        float, typer.Option(min=1, callback=finite, help="Processor seconds that one step of one model may take.")
    ] = 120,
    memory: Annotated[float, typer.Option(min=0.5, callback=finite, help="GiB of memory that one model may take.")] = 8,
    parameters: Annotated[int, typer.Option(min=0, help="Millions of parameters of the largest; 0: any.")] = 200,
    trained: Annotated[
        int, typer.Option(metavar="N", min=0, help="The same for passes with gradients, which cost several times more.")
    ] = 60,
    retry: Annotated[bool, typer.Option("--retry", help="Try again what failed.")] = False,
    as_json: AsJson = False,
) -> None:
    """Capture what the sources name, skipping what the catalogue is done with. May be killed and run again.

    Example: mindgap corpus build out/catalogue 'timm:resnet*' 'transformers:*' --pass backward
    """
    from mindgap_campaign.catalogue import Catalogue, ModelLimits, build as build_catalogue
    from mindgap_campaign.catalogue.patterns import EVERYTHING

    check_directory("CATALOGUE", directory)
    if ray and jobs is not None:
        raise MindgapError("--jobs is for this machine: with --ray, each processor of the cluster captures a model")
    with result_stream() as out, _place(ray) as place:
        catalogue = Catalogue(directory, create=True)
        limits = ModelLimits(cpu, int(memory * (1 << 30)), parameters * 1_000_000 or None, trained * 1_000_000 or None)
        with _ticking() as tick:
            build_catalogue(
                catalogue, patterns or EVERYTHING, [_pass(name) for name in passes or ()],
                limits=limits, jobs=jobs or 2, place=place, retry=retry, on_tick=tick,
            )  # fmt: skip
        stats = _verified(catalogue)
        _print_stats(stats, out, as_json)
        _refuse_damage(stats, directory)
        if not any(distinct.models for distinct in stats.distinct):
            raise MindgapError(f"NOTHING WAS CAPTURED: all {sum(z.tried for z in stats.zoos)} attempts failed")


@corpus.command("list")
def list_(
    directory: Directory,
    failed: Annotated[bool, typer.Option("--failed", help="What was not captured, each with its reason.")] = False,
    scheme: Annotated[str | None, typer.Option(metavar="SCHEME", help="One zoo: timm, records, ops …")] = None,
    as_json: AsJson = False,
) -> None:
    """List every program and pass of a catalogue.

    Example: mindgap corpus list out/catalogue --failed --scheme transformers
    """
    from mindgap_campaign.catalogue import Catalogue

    with result_stream() as out:
        statuses = ("failed", "left_out") if failed else ("captured", "duplicate")
        where, params = f"status IN {statuses!r}", list[str]()
        if scheme:
            where, params = where + " AND scheme = ?", [scheme]
        entries = Catalogue(directory).entries(where, params)
        if as_json:
            json.dump([asdict(entry) for entry in entries], out, indent=1)
            out.write("\n")
            return
        if not entries:
            raise MindgapError(f"{directory}: no entry is {' or '.join(statuses).replace('_', ' ')}")
        for entry in entries:
            out.write(f"{entry.source}  {entry.of}  {entry.status}  {entry.reason or _figures(entry)}\n")


@corpus.command()
def show(
    directory: Directory,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="As `corpus list` writes it, or the program's name.")],
    of: OfPass = "forward",
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write its graph here.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show one entry and its graph. Tensors that its file refers to go into the user's own store.

    Example: mindgap corpus show out/catalogue timm:resnet18 -o resnet18.graph
    """
    from mindgap.graph import encode, stored_keys
    from mindgap_campaign.catalogue import Catalogue

    check_files(("--output", output))
    with result_stream() as out:
        catalogue = Catalogue(directory)
        entry = catalogue.entry(source, _pass(of))
        if output is not None:
            graph = catalogue.graph(entry)
            # Where every command looks for the tensors of a graph file. First: a file without them is of no use.
            default_tensor_store().copy(stored_keys(graph), TensorStore(catalogue.tensors))
            write_file(output, encode(graph))
        fields = asdict(entry)
        if as_json:
            json.dump(fields, out, indent=1)
            out.write("\n")
            return
        for name, shown in {**fields, "operators": ", ".join(entry.operators)}.items():
            if shown not in ("", 0):
                out.write(f"{name.replace('_', ' '):>12}  {shown}\n")
        if entry.graph:
            out.write(f"\n{catalogue.graph(entry)}\n")


@corpus.command()
def stats(directory: Directory, as_json: AsJson = False) -> None:
    """Count what was tried, captured, a duplicate or failed, with reasons; count distinct graphs by three measures.

    Every graph is read back with its stored tensors; where one cannot be, the exit status is 2.

    Example: mindgap corpus stats out/catalogue
    """
    from mindgap_campaign.catalogue import Catalogue

    with result_stream() as out:
        entries = _verified(Catalogue(directory))
        _print_stats(entries, out, as_json)
        _refuse_damage(entries, directory)


def _verified(catalogue: Catalogue) -> CatalogueStats:
    """Computes the catalogue's figures, with a progress bar while its graphs are read back."""
    from mindgap_campaign.catalogue import stats_of

    with counting() as tick:
        return stats_of(catalogue, lambda done, total: tick(done, total, "reading graphs back"))


def _refuse_damage(stats: CatalogueStats, directory: Path) -> None:
    """Raises `MindgapError` for a catalogue with damaged graphs. The message names the first and the remedy."""
    if stats.damaged:
        programs = sum(len(each.programs) for each in stats.damaged)
        first = stats.damaged[0]
        source, of = first.programs[0]
        raise MindgapError(
            f"DAMAGED: {len(stats.damaged)} of {stats.verified} graphs, which stand for {programs} programs, cannot be "
            f"run (--json lists them), such as {source} ({of}): {first.reason}; "
            f"`mindgap corpus build {directory} SOURCE…` captures again what is damaged of these sources"
        )


def _figures(entry: Entry) -> str:
    same = "" if entry.holder == entry.graph else f", same structure as {entry.holder[:12]}"
    return f"{entry.nodes} nodes, {entry.parameters:,} parameters{same}"


def _pass(name: str) -> Pass:
    from mindgap_campaign.catalogue import PASSES

    for known in PASSES:
        if name == known:
            return known
    raise MindgapError(f"--pass {name}: there are {', '.join(PASSES)}")


def _print_stats(stats: CatalogueStats, out: TextIO, as_json: bool) -> None:
    if as_json:
        json.dump(stats.to_dict(), out, indent=1)
        out.write("\n")
        return
    page = console(out)
    for table in (_zoos(stats), _distinct(stats), _reasons(stats)):
        if table.row_count:
            page.print(table)
    sizes = ", ".join(f"{name} {size / 1e6:.1f}" for name, size in stats.bytes_by_folder.items())
    page.print(
        f"{stats.union} operator overload packets in the union of all passes; "
        f"{stats.cpu_seconds / 3600:.2f} CPU hours; {stats.nbytes / 1e6:.1f} MB ({sizes}); "
        f"{stats.verified - len(stats.damaged)} of {stats.verified} graphs read back from disk with their tensors",
        highlight=False,
    )


def _table(title: str, columns: tuple[str, ...], left: int) -> Table:
    """Makes a table whose first `left` columns are text and whose others are numbers."""
    table = Table(box=None, pad_edge=False, header_style="bold", title=title, title_justify="left")
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index < left else "right", overflow="fold")
    return table


def _zoos(stats: CatalogueStats) -> Table:
    columns = ("source", "pass", "tried", "captured", "of them proven", "duplicates", "left out", "failed", "CPU s")
    table = _table("programs", columns, 2)
    for z in stats.zoos:
        numbers = (z.tried, z.captured, z.proven, z.duplicates, z.left_out, z.failed, round(z.cpu_seconds))
        table.add_row(z.scheme, z.of, *(f"{number:,}" for number in numbers))
    return table


def _distinct(stats: CatalogueStats) -> Table:
    names = tuple(stats.distinct[0].structures) if stats.distinct else ()
    table = _table("distinct", ("pass", "programs", "graphs", *names, "overloads", "packets"), 1)
    for d in stats.distinct:
        numbers: list[Any] = [d.models, d.graphs, *d.structures.values(), d.overloads, d.packets]
        table.add_row(d.of, *(f"{number:,}" for number in numbers))
    return table


def _reasons(stats: CatalogueStats) -> Table:
    table = _table("not captured", ("count", "source", "pass", "reason", "for example"), 5)
    for r in stats.reasons[:_MOST_REASONS]:
        table.add_row(str(r.count), r.scheme, r.of, r.reason[:160], r.example)
    rest = sum(r.count for r in stats.reasons[_MOST_REASONS:])
    if rest:
        table.add_row(str(rest), "", "", "other reasons: mindgap corpus list CATALOGUE --failed", "")
    return table


@contextmanager
def _place(ray: str) -> Generator[CapturePlace | None]:
    """Connects to the cluster at an address. Without one, models are captured on this machine."""
    if not ray:
        yield None
        return
    from mindgap_campaign.cluster.capture_place import captures_on_ray

    with captures_on_ray(ray) as place:
        yield place


@contextmanager
def _ticking() -> Generator[Callable[[BuildProgress], None]]:
    """Shows a bar on a terminal; in a log, a line every 15 seconds."""
    with counting() as bar:
        yield lambda tick: bar(tick.done, tick.total, tick.source)
