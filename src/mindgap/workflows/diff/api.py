"""Runs one model or many on platforms and reports the differences: `diff` and `diff_many`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mindgap.graph import Graph
from mindgap.graph.tensors import TensorStore, default_tensor_store
from mindgap.platforms.name import CPU_EAGER
from mindgap.results.rows import Report
from mindgap.results.settings import DEADLINE_S, OWN_PATH, REPEAT, TRACE, RunSettings
from mindgap.workflows.diff.session import Session
from mindgap.workflows.diff.subject import OnProgress, Subject

if TYPE_CHECKING:
    from mindgap.results.store import Store

__all__ = ["OnProgress", "diff", "diff_many"]


def diff(
    model: Graph | Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    platforms: Sequence[str],
    reference: str = CPU_EAGER,
    trace: bool = TRACE,
    name: str = "",
    repeat: int = REPEAT,
    deadline_s: float = DEADLINE_S,
    tensors: TensorStore | None = None,
    backward: bool = False,
    own_path: bool = OWN_PATH,
    reference_model: Callable[..., Any] | None = None,
    path_taken: bool = False,
    ignore_output: Sequence[str] = (),
    output_mask: str = "",
) -> Report:
    """Runs a model (or a captured graph) on every platform and compares each with the reference.

    `report.rows` has one row per platform, in the order given. Raises `MindgapError` where the model cannot be
    captured (a `sys.exit` in it too), or a platform is unknown or not available on this machine. What a platform does
    wrong is a row. The model is captured in this process: a crash or an `os._exit` in it ends the process. The command
    line captures in a separate process.
    `args` that is a list of several tuples is several sets of arguments: a row is of the set that shows the worst, and
    has the faults of all.
    `tensors` is where the weights are kept: by default the user's store for a graph that was captured before,
    and a temporary directory for a model. `own_path`: the model itself goes the way of each platform's users too
    (`torch.onnx.export`, `torch.compile` and so on), as with `mindgap diff`; here in this process. A graph that was
    captured before has no such way, nor have gradients.
    `path_taken`: where values decide in the model, the path that these arguments take is compared, and what would lead
    a platform another way (`mindgap.capture`).
    `backward`: the model's gradients are compared too (`capture_kernels`).
    `ignore_output`: names of outputs that no caller reads. `output_mask`: the name of an argument that is 0 where
    outputs are not read (`~NAME`: 1). Both are left out of the comparison, and a warning counts them.
    `reference_model`: the model before it was quantised, which takes the same arguments.
    `report.models[0].quantisation_cost` is how far the quantised model's outputs are from its, on the reference.
    Each call starts worker processes; a `Session` keeps them for the next call.
    """
    if tensors is None and isinstance(model, Graph):
        tensors = default_tensor_store()
    with Session(tensors=tensors) as session:
        return session.diff(
            model, args, kwargs, platforms=platforms, reference=reference, trace=trace, name=name, repeat=repeat,
            deadline_s=deadline_s, backward=backward, own_path=own_path, path_taken=path_taken,
            reference_model=reference_model, ignore_output=ignore_output, output_mask=output_mask,
        )  # fmt: skip


def diff_many(
    subjects: Iterable[Subject], platforms: Sequence[str], *, settings: RunSettings | None = None,
    progress: OnProgress | None = None, tensors: TensorStore | None = None, jobs: int | None = None,
    skip_unavailable: bool = False, store: Store | None = None,
) -> Report:  # fmt: skip
    """Compares every subject on every platform. A subject that gives no graph is `refused`; the others continue.

    `jobs`: how many workers work at once (default: one per core). `skip_unavailable`: a platform that is not
    on this machine gives no rows, and its facts say why; otherwise it raises `PlatformError`, as does an unknown one.
    `store`: where everything is also written as it is found (weights are not). Where that fails the comparison goes
    on, and `StoreNotWritten`, which has the report, is raised at its end. Ctrl-C raises `DiffInterrupted`, which has
    what is known by then.
    """
    with Session(tensors=tensors or default_tensor_store(), jobs=jobs) as session:
        return session.diff_many(
            subjects, platforms, settings=settings, progress=progress, skip_unavailable=skip_unavailable, store=store
        )
