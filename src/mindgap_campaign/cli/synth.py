"""Implements `mindgap synth`, which describes, writes and tries variants of a catalogue's graphs."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Generator, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO, cast

import typer

from mindgap.cli.numbers import finite
from mindgap.cli.outputs import check_files
from mindgap.cli.progress import counting
from mindgap.cli.streams import result_stream
from mindgap.graph import Graph, MindgapError, decode, live_nodes
from mindgap_campaign.cli.corpus import Directory

if TYPE_CHECKING:
    from mindgap.graph.compare.digest import Digested
    from mindgap_campaign.campaign.cases.region_sampling import SamplingReport
    from mindgap_campaign.campaign.plan import Variants
    from mindgap_campaign.synth.merging.merge import Merger
    from mindgap_campaign.synth.merging.variant import Variant
    from mindgap_campaign.synth.regions.pool import RegionPool

#: How many of the variants are written out as bytes for their rate, unless all are requested.
_TIMED = 500
#: How many of those are looked at.
_LOOKED_AT = 100


def synth(
    directory: Directory,
    count: Annotated[int, typer.Option("-n", "--count", min=1, help="How many variants.")] = 1000,
    nodes: Annotated[int, typer.Option(min=1, help="Nodes of a variant, glue included.")] = 1000,
    seed: Annotated[int, typer.Option(help="Another seed gives other variants.")] = 0,
    mutated: Annotated[
        float, typer.Option(min=0, max=1, callback=finite, help="The share of regions that are mutated.")
    ] = 0.25,
    large: Annotated[
        float,
        typer.Option(
            min=0, max=1, callback=finite, help="The share that may have values of more than 32,768 elements."
        ),
    ] = 0.1,
    run: Annotated[int, typer.Option(min=0, help="How many of them are also run on cpu/eager.")] = 50,
    pool_file: Annotated[
        Path | None, typer.Option("--pool", metavar="FILE", help="The pool of regions; default: in the catalogue.")
    ] = None,
    described: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the descriptions, a line of JSON each.")
    ] = None,
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=1, help="Processes that make the pool.")] = 2,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Synthesise variants: regions of real graphs, some of them mutated, merged into larger ones.

    The regions are cut, mutated and validated once, and kept as a pool.

    Example: mindgap synth out/catalogue -n 1000 --nodes 1000 --seed 7 --json
    """
    from mindgap_campaign.campaign.cases.variants import POOL
    from mindgap_campaign.campaign.plan import Size, Variants
    from mindgap_campaign.synth.merging.merge import Merger

    check_files(("--out", described), ("--pool", pool_file))
    size = Size(nodes=nodes, share=1.0)
    with result_stream() as out:
        pool, made = _pool(directory, pool_file, jobs)
        merger = Merger(pool)
        with _written(described) as lines:
            written = _described(
                merger, seed, Variants(count=count, sizes=(size,), mutated=mutated, large=large), lines
            )
        figures: dict[str, Any] = {
            **made,
            **_made_of(pool_file or directory / POOL),
            "variants": count,
            "regions": len(pool),
            # A region is prepared once, when it is first drawn, however many variants follow.
            "variants_per_second": round(count / written.cpu_seconds, 1),
            "preparing_cpu_seconds": round(merger.preparing_s, 1),
            "distinct": len(written.distinct),
            "bytes_of_a_description": round(written.characters / count),
            "coverage": _coverage(pool, written.features),
        }
        figures |= _materialised(merger, written.sample[:_TIMED])
        few = written.sample[:: max(1, len(written.sample) // run)][:run] if run else []
        figures |= _ran([merger.assembly(variant).encode() for variant in few])
        if as_json:
            json.dump(figures, out, indent=1)
            out.write("\n")
        else:
            out.writelines(_lines(figures))


def _pool(directory: Path, file: Path | None, jobs: int) -> tuple[RegionPool, dict[str, Any]]:
    """Loads or makes the pool. Returns it with the report of a new pool."""
    from mindgap_campaign.campaign.cases.variants import pool_of

    figures: dict[str, Any] = {}

    def made(tried: SamplingReport) -> None:
        figures["pool_cpu_seconds"] = round(tried.cpu_seconds, 1)
        figures["pool_proposed"] = dict(sorted(tried.proposed.items()))
        figures["pool_valid"] = {kind: tried.kept[kind] for kind in sorted(tried.proposed)}
        most = sorted(tried.reasons.items(), key=lambda each: (-each[1], each[0]))
        figures["pool_rejected"] = [f"{n} {kind}: {reason}" for (kind, reason), n in most[:12]]

    with counting() as tick:
        pool = pool_of(
            directory, file=file, jobs=jobs, on_made=made,
            on_tick=lambda done, total: tick(done, total, "cutting and mutating"),
        )  # fmt: skip
    return pool, figures


def _made_of(file: Path) -> dict[str, Any]:
    """Formats the number of graphs of the pool, and of those that gave no region, by reason."""
    from mindgap_campaign.campaign.cases.variants import pool_yield

    made = pool_yield(file)
    return {} if made is None else {"pool_graphs": made.bases, "pool_graphs_without_region": dict(made.barren)}


@dataclass
class _Described:
    """A sample of the described variants, and figures of all."""

    sample: list[Variant] = field(default_factory=list["Variant"])
    distinct: set[bytes] = field(default_factory=set[bytes])
    features: set[str] = field(default_factory=set[str])
    characters: int = 0
    cpu_seconds: float = 0.0


def _described(merger: Merger, seed: int, wanted: Variants, out: TextIO | None) -> _Described:
    """Describes all variants, with the specs of their borders and their digests."""
    from mindgap_campaign.campaign.cases.case import BLOCK
    from mindgap_campaign.campaign.cases.variants import draw_block

    result = _Described()
    every = max(1, wanted.count // _TIMED)
    for block in range(-(-wanted.count // BLOCK)):
        started, prepared = time.process_time(), merger.preparing_s
        described = draw_block(merger, seed, block, wanted, lambda _, v: (v, merger.assembly(v).digest()))
        result.cpu_seconds += time.process_time() - started - (merger.preparing_s - prepared)
        result.sample += [variant for variant, _ in described[::every]]
        for variant, digest in described:
            result.distinct.add(bytes.fromhex(digest))
            result.features |= merger.features(variant)
            text = variant.to_json()
            result.characters += len(text)
            if out is not None:
                out.write(f'{{"digest":"{digest}","variant":{text}}}\n')
    return result


def _coverage(pool: RegionPool, features: Set[str]) -> dict[str, int]:
    """Counts covered overload packets and features, and those that the pool could cover."""
    able = frozenset(pool.feature_names)
    return {
        "packets": len(_packets(features)),
        "packets_of_pool": len(_packets(able)),
        "features": len(features),
        "features_of_pool": len(able),
    }


def _packets(features: Set[str]) -> set[str]:
    return {feature.split("|")[0].rpartition(".")[0] for feature in features if "|" in feature}


@contextmanager
def _written(file: Path | None) -> Generator[TextIO | None]:
    """Opens a file to write lines to. Raises `MindgapError` if that fails."""
    if file is None:
        yield None
        return
    try:
        with file.open("w", encoding="ascii") as out:
            yield out
    except OSError as error:
        raise MindgapError(f"--out {file} cannot be written: {error.strerror}") from None


def _materialised(merger: Merger, variants: Sequence[Variant]) -> dict[str, Any]:
    started = time.process_time()
    written = [merger.assembly(variant).encode() for variant in variants]
    spent = time.process_time() - started
    graphs = [decode(data) for data in written[:_LOOKED_AT]]
    sizes = sorted(len(graph.nodes) for graph in graphs)
    return {
        "materialised_per_second": round(len(written) / spent, 1),
        "bytes_of_a_graph": round(sum(map(len, written)) / len(written)),
        "median_nodes": sizes[len(sizes) // 2],
        "nodes_that_influence_an_output": round(sum(map(_influential, graphs)) / sum(sizes), 4),
    }


def _influential(graph: Graph) -> int:
    """Counts the nodes that an output depends on, through values or written memory."""
    from mindgap.aten.operators import is_inplace

    return len(live_nodes(graph, lambda node: is_inplace(node.op)))


def _ran(graphs: Sequence[bytes]) -> dict[str, Any]:
    """Runs some graphs on the reference and counts the outcomes."""
    from mindgap.platforms.name import CPU_EAGER
    from mindgap.run.outcome import Job
    from mindgap.run.pool import WorkerPool

    if not graphs:
        return {"run": 0, "valid": None}
    platform = CPU_EAGER
    useful = elements = 0
    failed: list[str] = []
    with WorkerPool([platform]) as workers:
        for data in graphs:
            outcome = workers.run(Job(platform, decode(data), repeat=1))
            if not outcome.ran:
                failed.append(f"{outcome.status}: {outcome.signature[:120]}")
            for output in outcome.outputs:
                numbers, good = _useful(output)
                elements, useful = elements + numbers, useful + good
    return {
        "run": len(graphs),
        "valid": round(1 - len(failed) / len(graphs), 4),
        "useful_elements": round(useful / elements, 4) if elements else None,
        "failures": failed[:10],
    }


def _useful(output: Digested) -> tuple[int, int]:
    """Counts the float elements of an output, and the finite ones, if they are not all equal."""
    if not output.dtype.startswith(("float", "bfloat")):
        return 0, 0
    numbers = math.prod(output.shape)
    sketch = output.sketch
    finite = numbers - sketch.nan - sketch.pos_inf - sketch.neg_inf
    return numbers, finite if sketch.minimum != sketch.maximum else 0


def _lines(figures: Mapping[str, Any]) -> Iterator[str]:
    for name, value in figures.items():
        words = name.replace("_", " ")
        if isinstance(value, dict):
            yield from _lines({f"{words}: {part}": number for part, number in cast("dict[str, Any]", value).items()})
        elif isinstance(value, list):
            yield from (f"{words:<31} {each}\n" for each in cast("list[str]", value))
        else:
            yield f"{words:<31} {value}\n"
