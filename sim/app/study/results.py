"""Outcomes kept in a file, one JSON line each, so that a second start runs only the missing seeds.

Holds: a line is complete before its outcome counts as done; an incomplete last line (the writer was
killed) is removed; runs that ended with an exception do not count as done; one process at a time
writes a file.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from importlib import import_module, util
from io import FileIO
from pathlib import Path

import msgspec

from sim.app.study.outcome import Job, Outcome
from sim.app.study.pool import Pool
from sim.errors import InputError

# Every line begins with this. An incomplete last line with another beginning was not written here
# and is not removed.
_BEGINS = b'{"key":"'


class Results:
    """Finished outcomes by key and seed.  Without a file: only in memory."""

    def __init__(self, file: Path | None = None) -> None:
        self.file = file
        self._done: dict[tuple[str, int], Outcome] = {}
        if file is not None and file.exists():
            self._read(file)

    def _read(self, file: Path) -> None:
        if not file.is_file():
            raise InputError("is no ordinary file", str(file))
        data = file.read_bytes()
        whole = data.rfind(b"\n") + 1
        for number, line in enumerate(data[:whole].splitlines(), 1):
            try:
                found = msgspec.json.decode(line, type=Outcome)
            except msgspec.DecodeError as error:
                raise InputError(
                    f"not a line of results: {error}",
                    f"{file}:{number}",
                    "give the file of an earlier start, or take a damaged line out: its seed is run again",
                ) from None
            self._done[found.key, found.seed] = found
        if whole < len(data):
            if not data[whole:].startswith(_BEGINS[: len(data) - whole]):
                raise InputError("not a line of results", str(file), "give the file of an earlier start")

    def summary(self, jobs: Iterable[Job]) -> str:
        """What the file contains for these jobs, and what else; "" if it contains nothing."""
        wanted = list(jobs)
        found, keys = self.kept(wanted), dict.fromkeys(job.key for job in wanted)
        others = sum(key not in keys for key, _ in self._done)
        parts = [f"{found} results are taken from it"] if found else []
        if others:
            parts.append(
                f"{others} results are left alone, of another scenario, other settings or another version"
            )
        return f"{self.file}: {'; '.join(parts)}" if parts else ""

    def kept(self, jobs: Iterable[Job]) -> int:
        """The number of these jobs that are done."""
        return sum(self.get(job) is not None for job in jobs)

    def get(self, job: Job) -> Outcome | None:
        """The outcome of a job, if it is done."""
        found = self._done.get((job.key, job.seed))
        return None if found is None or found.error else found

    def perform(self, jobs: Iterable[Job], pool: Pool) -> Iterator[Outcome]:
        """Outcomes of all jobs: first the finished ones, then the others as they end."""
        left = []
        for job in jobs:
            done = self.get(job)
            if done is None:
                left.append(job)
            else:
                yield done
        if not left:
            return
        if self.file is None:
            yield from pool(left)
            return
        with FileIO(self.file, "ab+") as lines:
            self._claim(lines)
            for found in pool(left):
                self._write(lines, msgspec.json.encode(found) + b"\n")
                yield found

    def _claim(self, lines: FileIO) -> None:
        """Lock the file for this process, where the system supports locks. An incomplete line in it
        is then from a killed writer.
        """
        if util.find_spec("fcntl") is not None:
            fcntl = import_module("fcntl")
            try:
                fcntl.flock(lines, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                remedy = "wait for it, or give another file"
                raise InputError("another run is writing it", str(self.file), remedy) from None
            except OSError as error:
                # Some network file systems do not support locks.
                if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP):
                    raise
        lines.seek(0)
        lines.truncate(lines.readall().rfind(b"\n") + 1)

    def _write(self, lines: FileIO, line: bytes) -> None:
        """Write a complete line, or raise an error with the name of the file."""
        try:
            while line:
                line = line[lines.write(line) :]
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.file)) from None
