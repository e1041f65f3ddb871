"""Linearizability of single objects of an API server that runs alone, under kills and pauses.

python -m tests.bench.linear [--count 10000] [--seed 0] [--option=WORD]

Clients read, create, replace (with resourceVersion) and delete a few ConfigMaps, while the server
is by turns killed (SIGKILL) and started again, and paused (SIGSTOP) and continued. The history is
then judged (`tests.bench.linearizability`). The server has a data directory, or what the options
say (--option=--etcd-servers=http://127.0.0.1:2379). Prints what took place, and ends with
status 1 if no order explains it.
"""

from __future__ import annotations

import argparse
import http.client
import json
import math
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.bench.kills import BROKEN
from tests.bench.linearizability import Kind, Operation, Outcome, unexplained
from tests.bench.server_kills import HEADERS, MAPS, ServersAlone

CLIENTS, KEYS = 6, 12
FAULT_EACH = 400  # operations
PAUSE_S = 0.05, 0.5  # shorter than the clients' patience
OUTCOMES = {
    200: Outcome.OK,
    201: Outcome.OK,
    404: Outcome.ABSENT,
    409: Outcome.CONFLICT,
}
METHODS = {Kind.CREATE: "POST", Kind.UPDATE: "PUT", Kind.DELETE: "DELETE", Kind.GET: "GET"}


class History:
    """What clients did.

    serves: set while there is a server
    over: when what was sent to earlier servers can take effect no more
    """

    def __init__(self, servers: ServersAlone, count: int) -> None:
        self.servers, self.count = servers, count
        self.operations: list[Operation] = []
        self.turn, self.over = 0, 0.0
        self.serves, self.lock = threading.Event(), threading.Lock()

    @property
    def ended(self) -> bool:
        """True if there are enough operations."""
        return len(self.operations) >= self.count

    def next_turn(self) -> int:
        """A value that no other write has."""
        with self.lock:
            self.turn += 1
            return self.turn


class Client:
    """One client.  known: the last revision that it has seen, by name"""

    def __init__(self, history: History, drawn: random.Random) -> None:
        self._history, self._drawn = history, drawn
        self.known: dict[str, int] = {}

    def run(self) -> None:
        """Act until there are enough operations."""
        history = self._history
        while not history.ended:
            history.serves.wait()
            connection = history.servers.connect()
            while not history.ended and self._act(connection):
                pass
            connection.close()

    def _act(self, connection: http.client.HTTPSConnection) -> bool:
        """One operation; returns False if it has no answer."""
        drawn, history = self._drawn, self._history
        name = f"k-{drawn.randrange(KEYS)}"
        kind = drawn.choices((Kind.GET, Kind.UPDATE, Kind.CREATE, Kind.DELETE), (40, 40, 12, 8))[0]
        expect = self.known.get(name, 0) if kind is Kind.UPDATE else 0
        if kind is Kind.UPDATE and not expect:
            kind = Kind.GET
        turn = history.next_turn() if kind in (Kind.CREATE, Kind.UPDATE) else 0
        path = MAPS if kind is Kind.CREATE else f"{MAPS}/{name}"
        metadata = {"name": name} | ({"resourceVersion": str(expect)} if expect else {})
        body = json.dumps({"metadata": metadata, "data": {"turn": str(turn)}}) if turn else None
        began, answered = time.monotonic(), 0
        try:
            connection.request(METHODS[kind], path, body, HEADERS)
            answer = connection.getresponse()
            found = json.loads(answer.read())
            answered = answer.status
        except BROKEN:
            history.serves.wait()  # of the next server
            if kind is not Kind.GET:
                ended = max(began, history.over)
                history.operations.append(Operation(name, kind, began, ended, Outcome.UNKNOWN, turn, expect))
            return False
        ended = time.monotonic()
        if answered >= http.client.INTERNAL_SERVER_ERROR:  # etcd is away, and may do it later
            if kind is not Kind.GET:
                unknown = Operation(name, kind, began, math.inf, Outcome.UNKNOWN, turn, expect)
                history.operations.append(unknown)
            return True
        history.operations.append(
            self._answered(name, kind, (began, ended), (turn, expect), (answered, found))
        )
        return True

    def _answered(
        self,
        name: str,
        kind: Kind,
        when: tuple[float, float],
        sent: tuple[int, int],
        answer: tuple[int, dict[str, Any]],
    ) -> Operation:
        status, found = answer
        (turn, expect), outcome, rev = sent, OUTCOMES[status], 0
        if outcome is Outcome.CONFLICT and kind is Kind.CREATE:
            outcome = Outcome.EXISTS
        if outcome is Outcome.OK and kind is not Kind.DELETE:
            rev, turn = int(found["metadata"]["resourceVersion"]), int(found["data"]["turn"])
            self.known[name] = rev
        return Operation(name, kind, *when, outcome, turn, expect, rev)


def record(history: History, drawn: random.Random, *, settles: bool) -> Counter[str]:
    """Let clients and faults act; how often each fault was there.

    settles: what a killed server was asked for takes no effect after its end
    """
    servers, faults = history.servers, Counter[str]()
    pid = servers.start()
    history.serves.set()
    clients = [Client(history, random.Random(drawn.random())) for _ in range(CLIENTS)]
    threads = [threading.Thread(target=client.run, daemon=True) for client in clients]
    for thread in threads:
        thread.start()
    due = FAULT_EACH
    while not history.ended:
        if len(history.operations) < due:
            time.sleep(0.005)  # for other threads
            continue
        due += FAULT_EACH
        if faults.total() % 2:
            history.serves.clear()
            servers.end(signal.SIGKILL)
            history.over = time.monotonic() if settles else float("inf")
            pid = servers.start()
            history.serves.set()
            faults["kills"] += 1
        else:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(drawn.uniform(*PAUSE_S))  # what is measured: a pause
            os.kill(pid, signal.SIGCONT)
            faults["pauses"] += 1
    for thread in threads:
        thread.join()
    servers.end(signal.SIGKILL)
    return faults


def run(count: int, seed: int, folder: Path, options: Sequence[str] = ()) -> tuple[History, Counter[str]]:
    """Record a history of so many operations.  options: in place of a data directory"""
    servers = ServersAlone(folder, options)
    try:
        history = History(servers, count)
        return history, record(history, random.Random(seed), settles=not options)
    finally:
        servers.close()


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--option", action="append", default=[])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        history, faults = run(arguments.count, arguments.seed, Path(folder), arguments.option)
    outcomes = Counter(f"{each.kind.value} {each.outcome.value}" for each in history.operations)
    print(f"{len(history.operations)} operations, {dict(faults)}: {dict(sorted(outcomes.items()))}")
    began_s = time.process_time()
    found = unexplained(history.operations)
    print(f"judged in {time.process_time() - began_s:.1f} s: ", end="")
    if found is None:
        print("linearizable")
        return 0
    print(f"no order explains {found}")
    for each in sorted(history.operations, key=lambda each: each.began):
        if each.key == found.key and each.ended > found.began - 5 and each.began < found.ended:
            print(f"  {each}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
