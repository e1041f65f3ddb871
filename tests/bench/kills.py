"""Kills of a server with a data directory: nothing that was acknowledged may be lost.

python -m tests.bench.kills [--count 500] [--seed 0] [--nodes 1]

Starts `orrery serve --data-dir`; two clients create and replace ConfigMaps, two follow ConfigMaps
and leases; kills the process (SIGKILL) at a random instant, starts it again, and compares: each
acknowledged write and each event that was received is there with its uid and at least its revision,
and revisions and virtual time never go back. The followers continue from the last revision that
they know, and meet each acknowledged write once. After 25 kills a new directory is begun, since a
start repeats the time so far. Prints a line each 25 kills, and ends with status 1 at the first
loss.

Each server is forked from a process that has imported its modules, which takes two thirds of a
start.
"""

from __future__ import annotations

import argparse
import http.client
import importlib
import json
import os
import random
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from sim.app.cli.main import main as orrery

MAPS = "/api/v1/namespaces/default/configmaps"
FOLLOWED = {"maps": MAPS, "leases": "/apis/coordination.k8s.io/v1/leases"}
STATE = "/orrery/v1/state"
START_S, RESUMED_S = 120.0, 60.0  # the longest start and resumption
KILL_S = 0.02, 0.4  # the time that a server has
KILLS_OF_ONE = 25  # directory
NAMES = 5  # ConfigMaps of each of the two writers
BROKEN = OSError, http.client.HTTPException, ValueError


class LossError(Exception):
    """Something that was acknowledged is not there."""


class Servers:
    """The servers of one directory, forked from one process."""

    module = "tests.bench.kills"  # has it, with --forks

    def __init__(self, folder: Path, nodes: int, pace: str = "30") -> None:
        self.config, self._log = folder / "config", folder / "log"
        arguments = ["serve", "--naming", "kubernetes", "--port", "0", "--pace", pace, "--data-dir"]
        arguments += [str(folder / "data"), "--client-config", str(self.config)]
        self._arguments = [*arguments, "--nodes", str(nodes)] if nodes else arguments
        self._fork()

    def _fork(self) -> None:
        command = [sys.executable, "-m", self.module, "--forks"]
        self._forks = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def _said(self, *words: str) -> str:
        assert self._forks.stdin is not None
        assert self._forks.stdout is not None
        self._forks.stdin.write(json.dumps(words) + "\n")
        self._forks.stdin.flush()
        return self._forks.stdout.readline().strip()

    def begin(self, back_s: int = 0) -> int:
        """The process of a server that does not serve yet."""
        self.config.unlink(missing_ok=True)
        return int(self._said("start", str(back_s), str(self._log), *self._arguments))

    def start(self, back_s: int = 0) -> int:
        """The process of a server, once it serves.  back_s: what the machine's clock is set back by"""
        pid = self.begin(back_s)
        end_s = time.monotonic() + START_S
        while not self._serves():
            if time.monotonic() > end_s or self._said("ended") == "yes":
                raise LossError(f"the server does not start: {self._log.read_text()}")
            time.sleep(0.02)  # for another process
        return pid

    def _serves(self) -> bool:
        return self.config.exists()

    def end(self, sent: int) -> None:
        """End the server by a signal, and wait for its end."""
        assert self._said("end", str(sent)) == "ended"

    def close(self) -> None:
        """End the process that forks."""
        assert self._forks.stdin is not None
        self._forks.stdin.close()
        self._forks.wait()
        if self._forks.stdout is not None:
            self._forks.stdout.close()


def forks(run: Callable[[list[str]], int] = orrery) -> None:
    """Fork servers as the lines of the input say.  run: what a server does with its arguments"""
    pid = 0
    for line in sys.stdin:
        what, *words = json.loads(line)
        if what == "start":
            pid = os.fork()
            if not pid:
                _become_server(run, int(words[0]), *words[1:])
            print(pid, flush=True)
        elif what == "ended":
            has_ended = os.waitpid(pid, os.WNOHANG)[0] == pid
            print("yes" if has_ended else "no", flush=True)
            pid = 0 if has_ended else pid
        else:
            os.kill(pid, int(words[0]))
            os.waitpid(pid, 0)
            pid = 0
            print("ended", flush=True)
    if pid:  # a failure has left it
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def preload() -> None:
    """Import what a server imports while it serves."""
    for name in ("sim.app.serving.serve", "sim.wire.http.fronts.server", "sim.app.cluster"):
        importlib.import_module(name)


def _become_server(run: Callable[[list[str]], int], back_s: int, log: str, *arguments: str) -> None:
    from sim.app.serving import front  # the parent, which starts no server, does without

    front.time_ns = lambda: time.time_ns() - back_s * 10**9  # type: ignore[attr-defined]
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for each in (1, 2):
        os.dup2(descriptor, each)
    sys.stdin.close()
    os._exit(run([*arguments]))


class Clients:
    """What the clients of all servers of one directory know.

    known: by name the uid, the revision and the turn of each acknowledged ConfigMap
    acknowledged: the revisions of all writes
    seen: by follower the revisions of the events, in their order
    """

    def __init__(self, config: Path) -> None:
        self.known: dict[str, tuple[str, int, int]] = {}
        self.acknowledged: dict[int, str] = {}
        self.seen: dict[str, list[int]] = {who: [] for who in FOLLOWED}
        self.virtual_us = self.again = 0
        self._from = dict.fromkeys(FOLLOWED, 0)
        self._config = config

    def connect(self) -> tuple[http.client.HTTPSConnection, dict[str, str]]:
        """A connection to the server, and the headers of a request."""
        config = yaml.safe_load(self._config.read_text())
        host = config["clusters"][0]["cluster"]["server"].removeprefix("https://")
        token = config["users"][0]["user"]["token"]
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        context = ssl._create_unverified_context()
        return http.client.HTTPSConnection(host, context=context, timeout=30), headers

    def write(self, who: int, turn: int, until: threading.Event) -> None:
        """Write until the server is gone; note what it acknowledges."""
        connection, headers = self.connect()
        number = 0
        while not until.is_set():
            number += 1
            name = f"m-{who}-{number % NAMES}"
            verb, path = ("PUT", f"{MAPS}/{name}") if name in self.known else ("POST", MAPS)
            body = {"metadata": {"name": name}, "data": {"turn": str(turn * 1_000_000 + number)}}
            try:
                connection.request(verb, path, json.dumps(body), headers)
                answer = connection.getresponse()
                found = json.loads(answer.read())
            except BROKEN:
                break
            if answer.status == 409 and verb == "POST":  # an earlier one was not acknowledged
                self.known[name] = ("", 0, 0)
            elif answer.status in (200, 201):
                metadata = found["metadata"]
                revision = int(metadata["resourceVersion"])
                self.known[name] = metadata["uid"], revision, int(found["data"]["turn"])
                self.acknowledged[revision] = name
        connection.close()

    def follow(self, who: str, until: threading.Event) -> None:
        """Follow the events from the last revision that is known until the server is gone."""
        connection, headers = self.connect()
        with suppress(*BROKEN):
            path = f"{FOLLOWED[who]}?watch=true&allowWatchBookmarks=false&resourceVersion={self._from[who]}"
            connection.request("GET", path, headers=headers)
            for line in connection.getresponse():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise LossError(f"the watch of {who} cannot continue: {event['object']['message']}")
                revision = int(event["object"]["metadata"]["resourceVersion"])
                self.seen[who].append(revision)
                self._from[who] = revision
                if until.is_set():
                    break
        connection.close()

    def begin(self) -> None:
        """Note the revisions from which events are followed."""
        connection, headers = self.connect()
        for who, path in FOLLOWED.items():
            connection.request("GET", f"{path}?limit=1", headers=headers)
            revision = json.loads(connection.getresponse().read())["metadata"]["resourceVersion"]
            self._from[who] = int(revision)
        connection.close()

    def check(self) -> None:
        """Compare what is there with what is known.  Raises LossError."""
        connection, headers = self.connect()
        connection.request("GET", MAPS, headers=headers)
        listed = json.loads(connection.getresponse().read())
        connection.request("GET", STATE, headers=headers)
        state = json.loads(connection.getresponse().read())
        connection.close()
        revision = int(listed["metadata"]["resourceVersion"])
        known = max((*self._from.values(), *self.acknowledged), default=0)
        if revision < known:
            raise LossError(f"revision {revision} after {known}")
        if state["virtual_us"] < self.virtual_us:
            raise LossError(f"virtual time {state['virtual_us']} after {self.virtual_us}")
        self.virtual_us = state["virtual_us"]
        there = {one["metadata"]["name"]: one for one in listed["items"]}
        for name, (uid, at, turn) in self.known.items():
            found = there.get(name)
            if found is None or (uid and found["metadata"]["uid"] != uid):
                raise LossError(f"{name} of uid {uid} is not there")
            if int(found["metadata"]["resourceVersion"]) < at or int(found["data"]["turn"]) < turn:
                raise LossError(f"{name} is older than what was acknowledged")

    def check_followed(self) -> None:
        """Each acknowledged write was met once, and in order.  Raises LossError."""
        for who, seen in self.seen.items():
            if sorted(set(seen)) != seen:
                raise LossError(f"the watch of {who} repeats or goes back")
        missed = sorted(self.acknowledged.keys() - set(self.seen["maps"]))
        if missed:
            raise LossError(
                f"the watch misses the write at revision {missed[0]}, and {len(missed) - 1} others"
            )


def run_one(kills: int, drawn: random.Random, turn: int, nodes: int, folder: Path) -> int:
    """Kill so many servers of a new directory; the number of acknowledged writes.

    Raises LossError.
    """
    servers = Servers(folder, nodes)
    clients = Clients(servers.config)
    lost: list[LossError] = []

    def guarded(call: Any, *arguments: Any) -> None:
        try:
            call(*arguments)
        except LossError as error:
            lost.append(error)

    try:
        for number in range(kills + 1):
            servers.start()
            clients.check()
            if not number:
                clients.begin()
            gone = threading.Event()
            jobs: list[tuple[Any, ...]] = [(clients.follow, who, gone) for who in FOLLOWED]
            if number < kills:
                jobs += [(clients.write, who, turn + number, gone) for who in range(2)]
            threads = [threading.Thread(target=guarded, args=job) for job in jobs]
            for thread in threads:
                thread.start()
            if number < kills:
                time.sleep(drawn.uniform(*KILL_S))  # what is measured: a kill at any instant
            else:
                end_s = time.monotonic() + RESUMED_S
                while clients.acknowledged.keys() - set(clients.seen["maps"]) and time.monotonic() < end_s:
                    time.sleep(0.02)  # for other threads
            servers.end(signal.SIGKILL if number < kills else signal.SIGINT)
            gone.set()
            for thread in threads:
                thread.join()
            if lost:
                raise lost[0]
        clients.check_followed()
    finally:
        servers.close()
    return len(clients.acknowledged)


def run(kills: int, seed: int, nodes: int, folder: Path, tell: Any = None) -> int:
    """Kill so many servers; the number of writes that were acknowledged.  Raises LossError."""
    drawn, writes = random.Random(seed), 0
    for first in range(0, kills, KILLS_OF_ONE):
        count = min(KILLS_OF_ONE, kills - first)
        of_it = folder / str(first)
        of_it.mkdir()
        writes += run_one(count, drawn, first, nodes, of_it)
        if tell is not None:
            tell(f"{first + count} kills, {writes} acknowledged writes, nothing lost")
    return writes


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--forks", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.forks:
        preload()
        forks()
        return 0
    with tempfile.TemporaryDirectory() as folder:
        try:
            writes = run(arguments.count, arguments.seed, arguments.nodes, Path(folder), _tell)
        except LossError as error:
            print(f"lost: {error}")
            return 1
    print(f"{arguments.count} kills, {writes} acknowledged writes, nothing lost")
    return 0


def _tell(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
