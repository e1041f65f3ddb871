"""Snapshots of a data directory: a served cluster as it was, to go back to or to try two futures.

Turns the journal of a data directory, up to its last whole operation, into a copy beside it or into
a new directory.  A snapshot is such a copy: the state of the cluster is what its journal repeats.

Holds: nothing is overwritten; what `restore` replaces is kept as a snapshot of its own; a snapshot
of a running server is that of an instant, since operations are written in their order.
"""

from __future__ import annotations

import errno
import secrets
import shutil
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import trio

from sim.app.serving.data_dir import JOURNAL, KEYS, SNAPSHOTS, DataDir
from sim.app.serving.journal import read_journal
from sim.errors import ConflictError, InputError, suggestion
from sim.files import new_private, replaced
from sim.kernel import POSITION, Gate
from sim.patterns import pattern

_NAME = pattern(r"^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$")


class Snapshot(NamedTuple):
    """One snapshot: its name, and the virtual time and the operations up to it."""

    name: str
    virtual_us: int
    operations: int


def save(folder: Path, name: str) -> Snapshot:
    """Keep the present state under a name.  Raises InputError."""
    if not _NAME.match(name):
        raise InputError(f"{name!r} is no name", "", "lower-case letters, digits, '-' and '.', at most 63")
    _check_cluster(folder)
    target = folder / SNAPSHOTS / name
    if target.exists():
        raise _taken(target)
    part = folder / SNAPSHOTS / f".{secrets.token_hex(8)}"
    try:
        _copy(folder, part)
        part.rename(target)
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):  # another was faster
            raise _taken(target) from None
        raise InputError(f"cannot be written: {error.strerror}", str(target)) from None
    return _described(target)


def _taken(target: Path) -> ConflictError:
    return ConflictError("there is such a snapshot", str(target), "choose another name")


def keeper(folder: Path, gate: Gate) -> Callable[[str], Awaitable[dict[str, Any]]]:
    """What keeps the state of the running server of a folder.  gate: of its kernel"""

    async def keep(name: str) -> dict[str, Any]:
        await gate.submit(POSITION, None)
        return (await trio.to_thread.run_sync(save, folder, name))._asdict()

    return keep


def listed(folder: Path) -> Iterator[Snapshot]:
    """The snapshots, by virtual time.  Raises InputError."""
    _check_cluster(folder)
    yield from sorted(map(_described, _present(folder)), key=lambda one: (one.virtual_us, one.name))


def _present(folder: Path) -> list[Path]:
    """The folders of the snapshots, without those that were not completed."""
    return sorted(each for each in (folder / SNAPSHOTS).glob("*") if _NAME.match(each.name))


def restore(folder: Path, name: str) -> Snapshot:
    """Go back to a snapshot, while no server runs; returns that of what was replaced.

    Raises InputError.
    """
    source = _named(folder, name)
    with DataDir(folder):
        number = 1
        while (folder / SNAPSHOTS / f"before-{name}-{number}").exists():
            number += 1
        stored = save(folder, f"before-{name}-{number}")
        with replaced(folder / JOURNAL, private=True) as written:
            written.write((source / JOURNAL).read_bytes())
    return stored


def fork(folder: Path, name: str, target: Path) -> None:
    """A new data directory that begins as a snapshot, or with "" as the present state.

    Raises InputError.
    """
    if target.exists() and any(target.iterdir()):
        raise InputError("is not empty", str(target), "name a new folder")
    if not name:
        _check_cluster(folder)
    _copy(_named(folder, name) if name else folder, target)


def _check_cluster(folder: Path) -> None:
    if not (folder / JOURNAL).is_file():
        raise InputError("holds no cluster", str(folder), "name the folder of orrery serve --data-dir")


def _named(folder: Path, name: str) -> Path:
    _check_cluster(folder)
    names = [one.name for one in _present(folder)]
    if name not in names:
        remedy = suggestion(name, names) or f"there is {', '.join(names) or 'none'}"
        raise InputError(f"has no snapshot {name!r}", str(folder), remedy)
    return folder / SNAPSHOTS / name


def _copy(source: Path, target: Path) -> None:
    """Copy a journal up to its last operation, and the keys."""
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = source / JOURNAL
    size = read_journal(file).size
    with file.open("rb") as opened, open(new_private(target / JOURNAL, b"", force=False), "wb") as written:
        written.write(opened.read(size))
    with open(new_private(target / KEYS, b"", force=False), "wb") as written:
        written.write((source / KEYS).read_bytes())


def _described(folder: Path) -> Snapshot:
    result = read_journal(folder / JOURNAL)
    return Snapshot(folder.name, result.virtual_us, len(result.operations))
