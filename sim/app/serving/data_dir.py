"""The data directory of a served cluster: its journal, its keys, and that one server has it.

Turns a folder into what a server continues: `orrery serve --data-dir DIR` begins a cluster in an
empty folder, and continues the cluster of another one by repeating its journal as fast as possible,
up to the last position at which a client can have learned of something. So objects, uids,
revisions, machines, pending timers and active faults are those of the server before, to the event.

Holds: an operation is written before it has an effect, and a position before a client learns of
what happened there (`Gateway.before_news`), so that nothing that was acknowledged is lost when the
process is killed at any instant (when the machine is, what its file system had not written). A
folder of another cluster or of another version is refused, and never changed. All files are for
their owner only. Two servers cannot have one folder.

Differs  a snapshot of a running simulation is not possible, since its processes are coroutines: to
continue takes the time in which the virtual time so far can be repeated.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Self

import msgspec

from sim.api.auth.keys import SigningKey, read_signing_key
from sim.app.serving.configs.clients import ClientConfig
from sim.app.serving.journal import Journal, Session, read_journal
from sim.app.study.outcome import program_digest
from sim.app.timetable import BEGIN
from sim.errors import InputError
from sim.files import claim, claimed_folder, write_text
from sim.ident import Names
from sim.wire.authority import Authority

JOURNAL, KEYS, LOCK, SNAPSHOTS = "journal", "keys.json", "lock", "snapshots"
PART = ".part"  # ends the names of files that were not completed
TOKEN_BYTES = 24


class _Kept(msgspec.Struct, frozen=True):
    """The keys in their file: PEM, and the token of each identity by its name and groups."""

    authority: str
    signing: str
    tokens: dict[str, str]


class Keys:
    """The keys of a served cluster.

    fresh: True if the cluster has not been given them yet
    """

    def __init__(self, authority: Authority, signing: SigningKey | None, *, fresh: bool) -> None:
        self.authority, self.signing, self.fresh = authority, signing, fresh
        self.tokens: dict[str, str] = {}

    def token(self, config: ClientConfig) -> str:
        """The token of an identity: the one that it had, or a new one."""
        identity = "+".join((config.name, *config.groups))
        return self.tokens.setdefault(identity, secrets.token_urlsafe(TOKEN_BYTES))


def new_keys(names: Names) -> Keys:
    """Keys that nothing else knows."""
    return Keys(Authority(names.component("ca")), None, fresh=True)


def keys_in(folder: Path, names: Names) -> Keys:
    """The keys of the server that a folder is of, or new ones.  Raises InputError."""
    file = folder / KEYS
    if not file.exists():
        return Keys(Authority(names.component("ca")), SigningKey.new(), fresh=True)
    try:
        stored = msgspec.json.decode(file.read_bytes(), type=_Kept)
        signing = read_signing_key(stored.signing.encode())
        result = Keys(Authority.read(stored.authority.encode()), signing, fresh=False)
    except (OSError, ValueError, msgspec.MsgspecError):
        raise InputError("holds no keys of a served cluster", str(file)) from None
    result.tokens.update(stored.tokens)
    return result


def keep_keys(folder: Path, keys: Keys) -> None:
    """Write the keys of a server, before its cluster is given them."""
    assert keys.signing is not None
    stored = _Kept(keys.authority.signing_pem.decode(), keys.signing.pem.decode(), dict(keys.tokens))
    write_text(folder / KEYS, msgspec.json.encode(stored).decode(), private=True)


def is_used(folder: Path) -> bool:
    """True while a server has a folder."""
    try:
        lock = os.open(folder / LOCK, os.O_RDWR)
    except OSError:
        return False
    try:
        return not claim(lock)
    finally:
        os.close(lock)


def kept_authority(folder: Path) -> bytes | None:
    """The certificate of the authority of the cluster in a folder, PEM; None without one."""
    try:
        stored = msgspec.json.decode((folder / KEYS).read_bytes(), type=_Kept)
        return Authority.read(stored.authority.encode()).pem
    except (OSError, ValueError, msgspec.MsgspecError):
        return None


class DataDir:
    """The folder of one server, which no other may have while it runs.  Raises InputError."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = claimed_folder(folder, LOCK, "server")

    def close(self) -> None:
        """Let another server have it."""
        os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def journal_file(self) -> Path:
        """The path of its journal."""
        return self.folder / JOURNAL

    def earlier(self, given: Session) -> Journal | None:
        """The journal of the cluster that it holds; None if it holds none.  Raises InputError.

        given: what the command line asks for, besides defaults
        """
        if not self.journal_file.exists():
            self._check_new()
            return None
        result = read_journal(self.journal_file)
        if not any(one.name == BEGIN for one in result.operations):
            self.journal_file.unlink()  # its server was killed before it served
            return None
        place, session = str(self.folder), result.head.session
        request = [
            name for name in Session.__struct_fields__ if getattr(given, name) != getattr(Session(), name)
        ]
        if any(getattr(given, name) != getattr(session, name) for name in request):
            raise InputError(
                "holds another cluster than these arguments describe",
                place,
                "leave them out to continue it, or name another folder",
            )
        if result.head.program != program_digest():
            raise InputError(
                "was written by another version of this program",
                place,
                "continue it with that version, or name another folder",
            )
        return result

    def _check_new(self) -> None:
        """Raises InputError if the folder holds other things than a server that was killed before
        it served leaves there.
        """
        names = sorted(each.name for each in self.folder.iterdir() if each.name not in (LOCK, KEYS))
        others = [name for name in names if not name.endswith(PART)]
        if SNAPSHOTS in others:
            raise InputError("its journal is missing", str(self.folder), f"copy one from {SNAPSHOTS} there")
        if others:
            what = f"is no data directory: it holds {', '.join(others[:3])}"
            raise InputError(what, str(self.folder), "name an empty or a new folder")

    def keys(self, names: Names) -> Keys:
        """The keys of the cluster that it holds, or new ones.  Raises InputError."""
        fresh, file = not self.journal_file.exists(), self.folder / KEYS
        if not fresh and not file.exists():
            raise InputError("its keys are missing", str(file), "copy those of a snapshot there")
        result = keys_in(self.folder, names)
        result.fresh = fresh
        return result

    def keep(self, keys: Keys) -> None:
        """Write the keys, before the cluster is given them."""
        keep_keys(self.folder, keys)
