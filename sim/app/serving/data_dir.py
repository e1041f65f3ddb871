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
from sim.app.serving.client_configs import ClientConfig
from sim.app.serving.journal import Journal, Session, read_journal
from sim.app.study.outcome import program_digest
from sim.errors import InputError
from sim.files import claim, write_text
from sim.ident import Names
from sim.wire.authority import Authority

JOURNAL, KEYS, LOCK = "journal", "keys.json", "lock"
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


class DataDir:
    """The folder of one server, which no other may have while it runs.  Raises InputError."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise InputError(f"cannot be used: {error.strerror}", str(folder)) from None
        if not claim(self._lock):
            raise InputError("is used by another server", str(folder), "end it, or name another folder")

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
            others = sorted(each.name for each in self.folder.iterdir() if each.name != LOCK)
            if others:
                what = f"is no data directory: it holds {', '.join(others[:3])}"
                raise InputError(what, str(self.folder), "name an empty or a new folder")
            return None
        found = read_journal(self.journal_file)
        place, session = str(self.folder), found.head.session
        asked = [
            name for name in Session.__struct_fields__ if getattr(given, name) != getattr(Session(), name)
        ]
        if any(getattr(given, name) != getattr(session, name) for name in asked):
            raise InputError(
                "holds another cluster than these arguments describe",
                place,
                "leave them out to continue it, or name another folder",
            )
        if found.head.program != program_digest():
            raise InputError(
                "was written by another version of this program",
                place,
                "continue it with that version, or name another folder",
            )
        if found.stop is not None:
            raise InputError(f"its journal could not be written any more: {found.stop.why}", place)
        return found

    def keys(self, names: Names) -> Keys:
        """The keys of the cluster that it holds, or new ones.  Raises InputError."""
        file = self.folder / KEYS
        if not file.exists():
            return Keys(Authority(names.component("ca")), SigningKey.new(), fresh=True)
        try:
            kept = msgspec.json.decode(file.read_bytes(), type=_Kept)
            signing = read_signing_key(kept.signing.encode())
            found = Keys(Authority.read(kept.authority.encode()), signing, fresh=False)
        except (OSError, ValueError, msgspec.MsgspecError):
            raise InputError("holds no keys of a served cluster", str(file)) from None
        found.tokens.update(kept.tokens)
        return found

    def keep(self, keys: Keys) -> None:
        """Write the keys, before the cluster is given them."""
        assert keys.signing is not None
        kept = _Kept(keys.authority.signing_pem.decode(), keys.signing.pem.decode(), dict(keys.tokens))
        write_text(self.folder / KEYS, msgspec.json.encode(kept).decode(), private=True)
