"""Kills of an API server that runs alone with a data directory: nothing acknowledged may be lost.

python -m tests.bench.server_kills [--count 1000] [--seed 0]

Clients create, replace (with resourceVersion) and delete ConfigMaps of their own, two follow them;
the server is killed (SIGKILL) at a random instant and started again, and its objects are compared
with what is known: each is as its last acknowledged write left it, or as the one write left it that
had no answer, and whole. Revisions never go back, and none is used twice. Followers continue from
their last revision, or list again if the server says so (410): what they see is in order, without
duplicates, has each acknowledged write, and leads to what a list shows. The file of the data
directory is replaced after a hundredth of the usual bytes, so that kills meet that too. After 50
kills a new directory is begun. Prints a line for each, and ends with status 1 at the first loss.

Each server is forked from a process that has imported its modules.
"""

from __future__ import annotations

import argparse
import http.client
import importlib
import json
import random
import signal
import ssl
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sim.app.serving.version import version
from tests.bench.kills import BROKEN, LossError, Servers, forks
from tests.cluster.daemons.running import USERS, free_port

MAPS = "/api/v1/namespaces/default/configmaps"
KILL_S = 0.02, 0.4  # the time that a server has
RESUMED_S = 60.0  # the longest resumption
KILLS_OF_ONE = 50  # directory
WRITERS, NAMES, FOLLOWERS = 4, 4, 2  # names of each writer
HEADERS = {"Authorization": "Bearer admin", "Content-Type": "application/json"}
FILLING = "x" * 500
GONE = 0  # the turn of an object that is not there


class ServersAlone(Servers):
    """The servers of one data directory, at one port.

    options: in place of the data directory
    """

    module = "tests.bench.server_kills"

    def __init__(self, folder: Path, options: Sequence[str] = ()) -> None:
        self.config, self._log, self.port = folder / "none", folder / "log", free_port()
        users = folder / "users.csv"
        users.write_text(USERS)
        self._arguments = [
            f"--token-auth-file={users}",
            f"--cert-dir={folder / 'certs'}",
            *(options or (f"--data-dir={folder / 'data'}",)),
            f"--secure-port={self.port}",
            "--bind-address=127.0.0.1",
        ]
        self._fork()

    def begin(self, back_s: int = 0) -> int:
        """The process of a server that does not serve yet."""
        self._log.write_text("")  # that of the server before says that it serves
        return super().begin(back_s)

    def _serves(self) -> bool:
        return "Serving securely" in self._log.read_text()

    def connect(self, timeout_s: float = 30) -> http.client.HTTPSConnection:
        """A connection to the present server."""
        context = ssl._create_unverified_context()
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=timeout_s)


def daemon(words: list[str]) -> int:
    """Run an API server; its file is replaced often."""
    from sim.app.daemons import commands, durable

    durable.REWRITE_BYTES, durable.STEP_RECORDS = durable.REWRITE_BYTES // 100, 16
    sys.argv = ["kube-apiserver", *words]
    return commands.main()


def preload() -> None:
    """Import what a server imports while it starts and serves."""
    for name in ("commands", "programs", "api_server", "apiserver.composition"):
        importlib.import_module(f"sim.app.daemons.{name}")
    for name in ("sim.wire.http.fronts.server", "cryptography.hazmat.backends.openssl.backend"):
        importlib.import_module(name)
    version()  # which reads the whole program


class Seen(NamedTuple):
    """What a revision stands for.  turn: GONE for a deletion"""

    name: str
    turn: int


class Write(NamedTuple):
    """A write, before its answer.  rev: which the object has, 0 if it is not there"""

    verb: str
    name: str
    turn: int
    rev: int

    def request(self) -> tuple[str, str, str | None]:
        """Method, path and body."""
        if self.verb == "DELETE":
            return "DELETE", f"{MAPS}/{self.name}", None
        metadata = {"name": self.name} | ({"resourceVersion": str(self.rev)} if self.rev else {})
        body = {"metadata": metadata, "data": {"turn": str(self.turn), "again": f"{self.turn}{FILLING}"}}
        return self.verb, MAPS if self.verb == "POST" else f"{MAPS}/{self.name}", json.dumps(body)


def seen_in(obj: dict[str, Any], *, deleted: bool = False) -> tuple[int, Seen]:
    """Revision and content of an object.  Raises LossError if it is not whole."""
    metadata, data = obj["metadata"], obj.get("data") or {}
    name = metadata["name"]
    if name.startswith("m-") and data["again"] != f"{data['turn']}{FILLING}":
        raise LossError(f"{name} is not whole: {data}")
    return int(metadata["resourceVersion"]), Seen(name, GONE if deleted else int(data.get("turn", 1)))


class Known:
    """What is known of one directory.

    at: by name of the writers' objects, revision and turn of the last acknowledged state
    open: by name, the write that had no answer
    revisions: what each revision stands for, as far as anybody has seen it
    acknowledged: the revisions of acknowledged writes
    """

    def __init__(self) -> None:
        self.at: dict[str, tuple[int, int]] = {}
        self.open: dict[str, Write] = {}
        self.revisions: dict[int, Seen] = {}
        self.acknowledged: set[int] = set()

    def note(self, rev: int, seen: Seen) -> None:
        """Note what a revision stands for.  Raises LossError if that was something else."""
        if self.revisions.setdefault(rev, seen) != seen:
            raise LossError(f"revision {rev} was {self.revisions[rev]} and is {seen}")

    def check(self, listed: dict[str, Any]) -> None:
        """Compare what a new server has, and take it over.  Raises LossError."""
        there = {}
        for obj in listed["items"]:
            rev, seen = seen_in(obj)
            self.note(rev, seen)
            there[seen.name] = rev, seen.turn
        newest = int(listed["metadata"]["resourceVersion"])
        if newest < max(self.revisions, default=0):
            raise LossError(f"revision {newest} after {max(self.revisions)}")
        for name in self.at.keys() | self.open.keys():
            was, now, attempt = self.at.get(name, (0, GONE)), there.get(name, (0, GONE)), self.open.get(name)
            same = now == was if now[1] != GONE else was[1] == GONE
            if not same and (attempt is None or now[1] != attempt.turn or now[0] == was[0] != 0):
                raise LossError(f"{name} is {now}, and was {was}, {attempt} had no answer")
            self.at[name] = now
        self.open.clear()


class Writer:
    """One client that writes.  drawn: its choices"""

    def __init__(self, servers: ServersAlone, known: Known, who: int, drawn: random.Random) -> None:
        self._servers, self._known, self._who, self._drawn = servers, known, who, drawn
        self._turn = 0

    def run(self, until: threading.Event) -> None:
        """Write until the server is gone."""
        connection = self._servers.connect()
        while not until.is_set():
            write = self._next()
            self._known.open[write.name] = write
            try:
                connection.request(*write.request(), HEADERS)
                answer = connection.getresponse()
                found = json.loads(answer.read())
            except BROKEN:
                break
            del self._known.open[write.name]
            if answer.status not in (200, 201):
                raise LossError(f"{write} was refused: {found}")
            if write.verb != "DELETE":
                rev, seen = seen_in(found)
                self._known.note(rev, seen)
                self._known.acknowledged.add(rev)
                self._known.at[write.name] = rev, write.turn
            else:
                self._known.at[write.name] = 0, GONE
        connection.close()

    def _next(self) -> Write:
        self._turn += 1
        name, turn = f"m-{self._who}-{self._drawn.randrange(NAMES)}", self._turn * WRITERS + self._who + 1
        rev, present = self._known.at.get(name, (0, GONE))
        if present == GONE:
            return Write("POST", name, turn, 0)
        if self._drawn.random() < 0.2:
            return Write("DELETE", name, GONE, rev)
        return Write("PUT", name, turn, rev)


class Follower:
    """One client that watches, across all servers of a directory.

    state: by name, revision and turn
    at: the last revision that it knows
    relists: how often it had to list again
    """

    def __init__(self, servers: ServersAlone, known: Known) -> None:
        self._servers, self._known = servers, known
        self.state: dict[str, tuple[int, int]] = {}
        self.at = self.relists = 0
        self._seen: set[int] = set()
        self._since = 0  # the events are complete from here on

    def list(self) -> None:
        """Begin again from what is there."""
        listed = listed_by(self._servers)
        rows = [seen_in(obj) for obj in listed["items"]]
        for rev, seen in rows:
            self._known.note(rev, seen)
        self.state = {seen.name: (rev, seen.turn) for rev, seen in rows}
        self.check()
        self.at = self._since = int(listed["metadata"]["resourceVersion"])
        self._seen.clear()

    def run(self, until: threading.Event) -> None:
        """Follow until the server is gone."""
        connection = self._servers.connect()
        try:
            while not until.is_set():
                path = f"{MAPS}?watch=true&allowWatchBookmarks=true&resourceVersion={self.at}"
                connection.request("GET", path, headers=HEADERS)
                for line in connection.getresponse():
                    if not self._take(json.loads(line)):
                        break
                else:
                    return
                connection.close()
                self.relists += 1
                self.list()
        except BROKEN:
            return
        finally:
            connection.close()

    def _take(self, event: dict[str, Any]) -> bool:
        """Take an event; returns False if the watch cannot continue."""
        obj = event["object"]
        if event["type"] == "ERROR":
            if obj["code"] != 410:
                raise LossError(f"the watch ends with {obj}")
            return False
        rev = int(obj["metadata"]["resourceVersion"])
        if event["type"] == "BOOKMARK":
            self.at = max(self.at, rev)
            return True
        if rev <= self.at:
            raise LossError(f"the watch shows {rev} after {self.at}")
        rev, seen = seen_in(obj, deleted=event["type"] == "DELETED")
        self._known.note(rev, seen)
        self._seen.add(rev)
        self.at = rev
        if seen.turn == GONE:
            del self.state[seen.name]
        else:
            self.state[seen.name] = rev, seen.turn
        return True

    def check(self) -> None:
        """No acknowledged write is missing in the events.  Raises LossError."""
        wanted = {rev for rev in self._known.acknowledged if self._since < rev <= self.at}
        if wanted - self._seen:
            raise LossError(f"the watch misses {sorted(wanted - self._seen)[:5]}")


def listed_by(servers: ServersAlone) -> dict[str, Any]:
    """All objects."""
    connection = servers.connect()
    connection.request("GET", MAPS, headers=HEADERS)
    listed: dict[str, Any] = json.loads(connection.getresponse().read())
    connection.close()
    return listed


def run_one(kills: int, drawn: random.Random, folder: Path) -> tuple[int, int]:
    """Kill so many servers of a new directory; the number of acknowledged writes, and of relists.

    Raises LossError.
    """
    servers, known, lost = ServersAlone(folder), Known(), list[Exception]()
    writers = [Writer(servers, known, who, random.Random(drawn.random())) for who in range(WRITERS)]
    followers = [Follower(servers, known) for _ in range(FOLLOWERS)]

    def guarded(call: Callable[[threading.Event], None], until: threading.Event) -> None:
        try:
            call(until)
        except Exception as error:
            lost.append(error)

    try:
        for number in range(kills + 1):
            servers.start()
            known.check(listed_by(servers))
            if not number:
                for follower in followers:
                    follower.list()
            gone, last = threading.Event(), number == kills
            runs = [follower.run for follower in followers]
            runs += [] if last else [writer.run for writer in writers]
            threads = [threading.Thread(target=guarded, args=(each, gone)) for each in runs]
            for thread in threads:
                thread.start()
            if last:
                wait_for_followers(followers, known)
            else:
                time.sleep(drawn.uniform(*KILL_S))  # what is measured: a kill at any instant
            gone.set()
            servers.end(signal.SIGKILL)
            for thread in threads:
                thread.join()
            for follower in followers:
                follower.check()
            if lost:
                raise lost[0]
    finally:
        servers.close()
    return len(known.acknowledged), sum(follower.relists for follower in followers)


def wait_for_followers(followers: list[Follower], known: Known) -> None:
    """Wait until followers have seen what is there.  Raises LossError."""
    end_s = time.monotonic() + RESUMED_S
    there = {name: at for name, at in known.at.items() if at[1] != GONE}
    for follower in followers:
        while {name: at for name, at in follower.state.items() if name.startswith("m-")} != there:
            if time.monotonic() > end_s:
                raise LossError(f"a watch leads to {follower.state}, and there is {there}")
            time.sleep(0.02)  # for other threads


def run(kills: int, seed: int, folder: Path, tell: Callable[[str], None] = lambda _: None) -> int:
    """Kill so many servers; the number of writes that were acknowledged.  Raises LossError."""
    drawn, writes, relists = random.Random(seed), 0, 0
    for first in range(0, kills, KILLS_OF_ONE):
        count = min(KILLS_OF_ONE, kills - first)
        of_it = folder / str(first)
        of_it.mkdir()
        found = run_one(count, drawn, of_it)
        writes, relists = writes + found[0], relists + found[1]
        tell(f"{first + count} kills, {writes} acknowledged writes, {relists} relists, nothing lost")
    return writes


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--forks", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.forks:
        preload()
        forks(daemon)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        try:
            run(arguments.count, arguments.seed, Path(folder), lambda line: print(line, flush=True))
        except LossError as error:
            print(f"lost: {error}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
