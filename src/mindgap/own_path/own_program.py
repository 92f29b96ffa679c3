"""The program of a subject, as `diff` runs it the way of each platform's users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mindgap.own_path.runs import FileNodes, Located, OwnRun, Sensitivity, ShownDifference, SizedRuns
from mindgap.platforms.name import PlatformName
from mindgap.run.channel import Array


class OwnProgram:
    """The program of a subject, which goes the way of each platform's users. `run` alone has no default."""

    def run(self, platform: PlatformName) -> OwnRun | None:
        """Runs it. None for eager mode, which exports nothing, and for a model file that the platform does not read."""
        raise NotImplementedError

    def run_sizes(self, platform: PlatformName, declared: bool) -> SizedRuns | None:
        """Runs one export with dynamic dimensions, or a ready-made file, at several sizes. None where none are
        requested, nor `declared` by the program's source, or the platform exports nothing."""
        return None

    def locate(self, platform: PlatformName, shown: ShownDifference) -> Located | None:
        """Finds the submodule that shows it by itself; of an ONNX file that ran in place of an export, how it differs
        from the program. None where that is not known."""
        return None

    def eager_again(self, platform: PlatformName) -> Sequence[Array]:
        """Builds the program again and returns its outputs in eager mode; none where that fails."""
        return ()

    def sensitivity(self, platform: PlatformName) -> Sensitivity:
        """Returns how far the outputs are from themselves in eager mode (`program_run.sensitivity`)."""
        return Sensitivity()

    def probe(
        self, platform: PlatformName, arrays: Sequence[Array]
    ) -> tuple[tuple[Array, ...], dict[str, Array]] | None:
        """Runs a quantised model file on these tensors with its integers as further outputs. Returns its outputs, and
        the integers by the name of their node; None for another program. Raises `MindgapError` where it does not run
        so."""
        return None

    def wrong_nodes(
        self, platform: PlatformName, apart: float | None, arrays: Sequence[Array] = (), folder: Path | None = None
    ) -> FileNodes:
        """Finds the nodes of an ONNX file that the platform computes otherwise by themselves (`file_nodes`). `apart`:
        how far the file is off, None where it fails. `arrays`: in place of its arguments. `folder`: where the first
        node is written."""
        return FileNodes(reason="no ONNX file that the platform reads")

    def reads(self, platform: PlatformName) -> bool:
        """Whether it is a model file, or has a ready-made one, that the platform is given as it is."""
        return False

    def end_idle(self) -> None:
        """Ends processes that keep the program's memory; the next call starts them again."""

    def stop(self) -> None:
        """Ends what runs, from another thread."""


@dataclass(frozen=True)
class LeftOut(OwnProgram):
    """A program that does not go the way of platforms' users, and why."""

    why: str

    def run(self, platform: PlatformName) -> OwnRun | None:
        return None if platform.mode == "eager" else OwnRun(platform, "", None, reason=self.why, fed=False)
