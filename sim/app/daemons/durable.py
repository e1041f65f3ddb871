"""The embedded durable store of an API server that runs alone: a log of commits in a folder.

Turns the commits of a store in memory into records of a file, and the file into the store of the
next process: objects, their revisions and owners of fields, and the history from which watches
resume.

Holds: a client learns of nothing that is not on the disk (`group_commit`); so what was acknowledged
or seen in a watch outlives a kill at any instant, and no revision is used twice. A record that is
incomplete at the end of the file has not been acknowledged, and is cut off; damage before the end
is refused. The file is replaced by a shorter one once the changes in it outweigh the objects, in
steps between which commits go to the present one. A folder of another naming, format or purpose is
refused, and never changed. Two processes cannot have one folder.

Mirrors  etcd's write-ahead log and snapshots in their purpose (server/storage/wal).
Differs  one file, which a shorter one replaces in place of a snapshot.

Rejected  SQLite in WAL mode: a commit of 1,500 bytes takes 0.17 to 0.21 ms of processor time and as
long on the disk, one here 0.085, and a store in memory needs no index on the disk.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from zlib import crc32

import msgspec

from actors.storage.memory import MemoryStore
from sim.api.store import Change, Compacted, Item, Managed
from sim.api.watch.columnar_renewals import spread
from sim.app.serving.data_dir import KEYS
from sim.errors import InputError
from sim.files import claimed_folder
from sim.units import NO_REVISION, Revision, Virtual, Wall

FORMAT = 1
LOG, NEXT, LOCK = "log", "log.next", "lock"
HEAD_BYTES = 12  # of a record: length, checksum of the length, checksum of its body
REWRITE_BYTES = 16 << 20  # a shorter file is not replaced
STEP_RECORDS, STEP_BYTES = 256, 4 << 20  # of a step of its replacement


class _Head(msgspec.Struct, frozen=True, array_like=True):
    """The first record.  floor: the oldest revision that can be read"""

    format: int
    naming: str
    floor: int


class _Record(msgspec.Struct, frozen=True, array_like=True):
    """One commit: a state of an object, or its end.  Without a key, a compaction.

    obj: JSON
    """

    wall_us: int
    key: str
    rev: int
    created: int
    obj: bytes
    managed: tuple[Managed, ...] = ()
    deleted: bool = False


_encode = msgspec.msgpack.Encoder().encode
_json = msgspec.json.Encoder().encode


def framed(value: _Head | _Record) -> bytes:
    """A record with its length and its checksum."""
    body = _encode(value)
    length = len(body).to_bytes(4, "big")
    return length + crc32(length).to_bytes(4, "big") + crc32(body).to_bytes(4, "big") + body


class DamagedError(Exception):
    """The file is not what was written.  at: where, in bytes"""

    def __init__(self, at: int, why: str) -> None:
        super().__init__(f"is damaged at byte {at}: {why}")


def records(data: bytes) -> Iterator[tuple[bytes, int]]:
    """The bodies of the whole records, each with the place of its end.  Raises DamagedError.

    What is incomplete at the end is left out.
    """
    at = 0
    while at + HEAD_BYTES <= len(data):
        length, *sums = (int.from_bytes(data[at + n : at + n + 4], "big") for n in (0, 4, 8))
        if crc32(data[at : at + 4]) != sums[0]:
            if not data[at:].strip(b"\0"):  # a file that grew before its content was written
                return
            raise DamagedError(at, "the checksum of a length is wrong")
        end = at + HEAD_BYTES + length
        if end > len(data):
            return
        body = data[at + HEAD_BYTES : end]
        if crc32(body) != sums[1]:
            if end == len(data):  # blocks of the last write can be written in any order
                return
            raise DamagedError(at, "the checksum of a record is wrong")
        yield body, end
        at = end


class DurableStore:
    """A store in memory with a folder that keeps its commits.  Raises InputError.

    epoch_us: the wall clock at virtual time 0 of this process
    kept: the newest revision that is on the disk
    on_commit: called at each commit
    """

    def __init__(self, folder: Path, naming: str, epoch_us: Wall) -> None:
        self.folder, self._naming, self._epoch_us = folder, naming, epoch_us
        self.store: MemoryStore | None = None
        self.kept = NO_REVISION
        self.on_commit: Callable[[], None] = lambda: None
        self._waiting: list[Change] = []
        self._floor = self._due = NO_REVISION  # in the file, and to be written with the next batch
        self._file = -1
        self._size = self._live = 0  # bytes of the file, and those of them that are needed
        self._sizes: list[tuple[str, int, int]] = []  # key, revision, bytes of records; 0: an end
        self._lock = claimed_folder(folder, LOCK, "process")

    # --- reading ----------------------------------------------------------------------------------

    def open(self, store: MemoryStore, history_us: int = 0) -> None:
        """Fill an empty store from the folder, and keep its commits.  Raises InputError.

        history_us: older history is dropped, also that of processes that have ended before their
            first compaction; 0: all is kept
        """
        try:
            self._fill(store)
            self._floor = store.floor
            if history_us:
                store.compact(store.revision_at(Virtual(-history_us)))
            self._live = self._needed(store.floor)
        except InputError:
            os.close(self._lock)
            raise
        except OSError as error:
            os.close(self._lock)
            raise InputError(f"cannot be written: {error.strerror}", str(self.folder)) from None
        self.kept = store.revision
        store.subscribe("", self._take)

    def _take(self, change: Change) -> None:
        self._waiting.append(change)
        self.on_commit()

    def _fill(self, store: MemoryStore) -> None:
        path = self.folder / LOG
        self.store = store
        if path.exists():
            (self.folder / NEXT).unlink(missing_ok=True)
            self._load(path, store)
        else:
            others = sorted(each.name for each in self.folder.iterdir() if each.name not in (LOCK, NEXT))
            if KEYS in others:  # which are written after the log
                raise InputError(f"has no {LOG}", str(self.folder), "restore it, or name another folder")
            foreign = [name for name in others if not name.endswith(".json")]
            if foreign:
                what = f"is no data directory: it holds {', '.join(foreign[:3])}"
                raise InputError(what, str(self.folder), "name an empty or a new folder")
            self._replace_file()

    def _load(self, path: Path, store: MemoryStore) -> None:
        try:
            data = path.read_bytes()
            end = self._read(data, store)
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", str(path)) from None
        except (DamagedError, msgspec.MsgspecError) as error:
            raise InputError(str(error), str(path), "restore a copy of it, or name another folder") from None
        try:
            self._file = os.open(path, os.O_RDWR)
            os.ftruncate(self._file, end)
            os.lseek(self._file, end, os.SEEK_SET)
            os.fsync(self._file)
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror}", str(path)) from None
        self._size = end

    def _needed(self, floor: Revision) -> int:
        """The bytes of what was read that is needed, if no older history is read."""
        newest: dict[str, int] = {}
        result = 0
        for key, rev, size in self._sizes:
            if rev > floor:
                result += size
            elif size:
                newest[key] = size
            else:
                newest.pop(key, None)
        self._sizes.clear()
        return result + sum(newest.values())

    def _read(self, data: bytes, store: MemoryStore) -> int:
        """Take the records into the store; returns the end of the last whole one."""
        result = records(data)
        head_body, end = next(result, (b"", 0))
        head = msgspec.msgpack.decode(head_body, type=_Head) if head_body else None
        if head is None or head.format != FORMAT:
            raise DamagedError(0, "it is no file of this version")
        if head.naming != self._naming:
            raise InputError(
                f"holds a cluster with the naming {head.naming}",
                str(self.folder),
                f"give --naming {head.naming}, or name another folder",
            )
        floor, latest = Revision(head.floor), Virtual(-(1 << 62))
        decode = msgspec.msgpack.Decoder(_Record).decode
        for body, after in result:
            record, end = decode(body), after
            if record.rev > floor:
                store.skip_to(floor)
            if not record.key:
                store.compact(Revision(record.rev))
                continue
            item = Item(
                record.key,
                msgspec.json.decode(record.obj),
                Revision(record.rev),
                Revision(record.created),
                record.managed,
            )
            # A clock that was set back does not bring changes out of order.
            latest = Virtual(max(latest, min(0, record.wall_us - self._epoch_us)))
            store.take(item, latest, deleted=record.deleted)
            self._sizes.append((record.key, record.rev, 0 if record.deleted else len(body)))
        store.skip_to(floor)
        return end

    # --- writing ----------------------------------------------------------------------------------

    def batch(self) -> tuple[list[Change], Revision]:
        """What was committed and waits to be written, and the revision of the last of it."""
        assert self.store is not None
        changes = list(spread(self._waiting))
        self._waiting.clear()
        self._due = self.store.floor
        return changes, self.store.revision

    def encoded(self, changes: Iterable[Change]) -> bytes:
        """The records of changes."""
        return b"".join(map(self._framed, changes))

    def write(self, data: bytes) -> None:
        """Write the records of one batch to the disk, on any thread.  Raises OSError."""
        if self._due > self._floor:
            data, self._floor = data + framed(_Record(0, "", self._due, 0, b"")), self._due
        _write(self._file, data)
        self._size += len(data)

    def flush(self) -> None:
        """Write all that was committed.  Raises OSError; what waited is not acknowledged then."""
        changes, revision = self.batch()
        if changes or self._due > self._floor:
            self.write(self.encoded(changes))
        self.kept = revision
        if self.is_long:
            self._replace_file()

    @property
    def is_long(self) -> bool:
        """True if changes outweigh the objects in the file."""
        return self._size > max(REWRITE_BYTES, 2 * self._live)

    def _framed(self, change: Change) -> bytes:
        item = change.item
        return framed(
            _Record(
                self._epoch_us + change.at_us,
                item.key,
                change.rev,
                item.created,
                _json(item.obj),
                item.managed,
                change.deleted,
            )
        )

    def _replace_file(self) -> None:
        for step in self.replacement():
            step()

    def replacement(self) -> Iterator[Callable[[], None]]:
        """Replace the file by the state at the oldest revision that can be read, and all since.

        The results are the steps, each of which is to be carried out, on any thread, before the
        next one is asked for. Batches may be written in between. A step raises OSError.
        """
        store, at, size = self.store, self._size, 0
        assert store is not None
        floor = store.floor
        if floor > self.kept:  # a later time will do
            return
        later = store.events(floor, "")
        assert not isinstance(later, Compacted)
        parts = self._whole(store, floor, [change for change in later if change.rev <= self.kept])
        descriptor = os.open(self.folder / NEXT, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        while data := b"".join(islice(parts, STEP_RECORDS)):
            size += len(data)
            yield partial(_write, descriptor, data)
        while self._size - at > STEP_BYTES:  # written to the present file since
            data = os.pread(self._file, STEP_BYTES, at)
            at, size = at + len(data), size + len(data)
            yield partial(_write, descriptor, data)
        yield partial(self._exchange, descriptor, at, size)

    def _exchange(self, descriptor: int, at: int, size: int) -> None:
        """Put the other file, with the end of the present one, in the place of that."""
        if at < self._size:
            _write(descriptor, os.pread(self._file, self._size - at, at))
        (self.folder / NEXT).replace(self.folder / LOG)
        folder = os.open(self.folder, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        size += self._size - at
        if self._file >= 0:
            os.close(self._file)
        self._file = descriptor
        self._size = self._live = size

    def _whole(self, store: MemoryStore, floor: Revision, later: list[Change]) -> Iterator[bytes]:
        past = sorted(store.state_at(floor), key=lambda item: item.rev)
        yield framed(_Head(FORMAT, self._naming, floor))
        at_us = later[0].at_us if later else Virtual(0)  # no later than this
        for item in past:
            yield self._framed(Change(item.rev, item, None, False, at_us))
        for change in later:
            yield self._framed(change)

    def close(self, *, flushes: bool = True) -> None:
        """Let another process have the folder.  flushes: write what is left before"""
        if flushes:
            self.flush()
        os.close(self._file)
        os.close(self._lock)


def _write(descriptor: int, data: bytes) -> None:
    """Write to the disk."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    os.fdatasync(descriptor)
