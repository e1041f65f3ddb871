"""The logs of a cluster's node agents as files of a folder.

Turns the streams and files that an agent writes into files: its standard error is NODE.log, its
standard output NODE.out.log, and a file of its machine is below NODE.

Holds: a folder that holds anything is used only by force; a path of a machine stays below its node.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path, PurePosixPath

from sim.errors import InputError
from sim.klog import STDERR, STDOUT, Output

_NAMES = {STDERR: ".log", STDOUT: ".out.log"}


class AgentLogs:
    """The folder of one run.  Raises InputError."""

    def __init__(self, folder: Path, *, force: bool = False) -> None:
        self._folder = folder
        self._begun: set[Path] = set()
        try:
            if folder.exists() and any(folder.iterdir()) and not force:
                raise InputError("holds files already", str(folder), "choose another folder, or add --force")
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror}", str(folder)) from None

    def of(self, node: str) -> Output:
        """Where the agent of a node writes."""
        write: Callable[[str, str, str | None], None] = self._write
        return partial(write, node)

    def _write(self, node: str, name: str, text: str | None) -> None:
        if name in _NAMES:
            path = self._folder / f"{node}{_NAMES[name]}"
        else:
            parts = [part for part in PurePosixPath(name).parts if part not in ("/", ".", "..")]
            path = self._folder.joinpath(node, *parts)
        fresh = text is None or path not in self._begun
        self._begun.add(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("w" if fresh else "a", encoding="utf-8", errors="replace") as file:
                file.write(text or "")
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror}", str(path)) from None


def logs_in(folder: Path | str | None, *, force: bool) -> AgentLogs | None:
    """The logs in a folder; None without one."""
    return None if folder is None else AgentLogs(Path(folder), force=force)
