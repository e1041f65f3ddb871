"""The audit log: lines in a file, which gives way to a new one when it is large.

Turns batches of events into lines at the end of a file, and a file that would exceed its size into
an older file beside it, named after the virtual time.

Holds: a line is in the file when `write` returns; a file that was there before is not replaced
without `force`; only older files that this log has made are removed; content is for its owner only.

Mirrors  kubernetes v1.25 apiserver plugin/pkg/audit/log/backend.go, natefinch/lumberjack v2.0.0.
Differs  a file that is there already is refused, or replaced with `force`; upstream appends to it.
"""

from __future__ import annotations

import gzip
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from sim.api.audit.delivery import line
from sim.api.audit.settings import LogSettings
from sim.api.types import Obj
from sim.files import new_private, write_all
from sim.units import HOUR, MS, format_time

STDOUT = "-"
LOG = logging.getLogger(__name__)


class AuditLog:
    """The log of a cluster.  Raises InputError if the file cannot be made.

    force: replace a file that is there already
    """

    def __init__(self, settings: LogSettings, *, force: bool = False) -> None:
        self._settings = settings
        self._path = Path(settings.path)
        self._size = 0
        # The rotated files with the times of their rotation, oldest first.
        self._older: list[tuple[int, Path]] = []
        self._failed = False
        self._descriptor = -1
        if settings.path != STDOUT:
            self._descriptor = new_private(self._path, b"", force=force)

    def write(self, events: Sequence[Obj], wall_us: int) -> bool:
        """Write events; False if they are not stored.  wall_us: Unix time of the cluster"""
        data = b"".join([line(event, self._settings.form) for event in events])
        try:
            if self._settings.path == STDOUT:
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()
                return True
            if self._size and self._size + len(data) > self._settings.size_max:
                self._rotate(wall_us)
            write_all(self._descriptor, data)
        except OSError as error:
            if not self._failed:
                LOG.error("the audit log %s cannot be written: %s", self._settings.path, error.strerror)
            self._failed = True
            return False
        self._failed = False
        self._size += len(data)
        return True

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    # --- older files ------------------------------------------------------------------------------

    def _rotate(self, wall_us: int) -> None:
        """Put the file aside and begin the next one."""
        older = self._older_name(wall_us)
        os.rename(self._path, older)
        self.close()
        self._size = 0
        self._descriptor = new_private(self._path, b"", force=False)
        if self._settings.compresses:
            older = _compressed(older)
        self._older.append((wall_us, older))
        self._remove_old(wall_us)

    def _older_name(self, wall_us: int) -> Path:
        """The name that lumberjack gives: the time in milliseconds before the extension."""
        stamp = format_time(wall_us).removesuffix("Z").replace(":", "-")
        path = self._path
        for milliseconds in range(wall_us // MS % 1000, 1_000_000):
            name = path.with_name(f"{path.stem}-{stamp}.{milliseconds:03d}{path.suffix}")
            if not name.exists() and not _gz(name).exists():
                return name
        raise FileExistsError(0, "too many older files", str(path))

    def _remove_old(self, wall_us: int) -> None:
        own, kept = self._settings, self._older
        if own.backups_max:
            self._remove(max(0, len(kept) - own.backups_max))
        if own.age_max_days:
            since_us = wall_us - own.age_max_days * 24 * HOUR
            self._remove(len([at_us for at_us, _ in self._older if at_us < since_us]))

    def _remove(self, count: int) -> None:
        for _, path in self._older[:count]:
            path.unlink(missing_ok=True)
        del self._older[:count]


def _gz(path: Path) -> Path:
    return path.with_name(f"{path.name}.gz")


def _compressed(path: Path) -> Path:
    """The file, compressed in its place.  Equal content gives equal bytes."""
    made = _gz(path)
    descriptor = new_private(made, b"", force=False)
    try:
        write_all(descriptor, gzip.compress(path.read_bytes(), mtime=0))
    finally:
        os.close(descriptor)
    path.unlink()
    return made
