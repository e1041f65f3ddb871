"""Kills of a server with a data directory: nothing that was acknowledged may be lost.

python -m tests.bench.kills [--kills 500] [--seed 0] [--nodes 1]

Starts `orrery serve --data-dir`, creates and replaces ConfigMaps, kills the process (SIGKILL) at a
random instant, starts it again, and compares: each acknowledged write is there with its uid and at
least its revision, and revisions and virtual time never go back.  Prints a line each 20 kills, and
ends with status 1 at the first loss.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import yaml

MAPS = "/api/v1/namespaces/default/configmaps"
STATE = "/orrery/v1/state"
START_S, KILL_S = 120.0, (0.02, 0.4)  # the longest start; the time that a server has


class LossError(Exception):
    """Something that was acknowledged is not there."""


class Clients:
    """What the clients of all servers of one folder know.

    known: by name the uid, the revision and the turn of each acknowledged ConfigMap
    """

    def __init__(self, folder: Path, nodes: int) -> None:
        self.known: dict[str, tuple[str, int, int]] = {}
        self.revision = self.virtual_us = 0
        self._folder, self._nodes = folder, nodes
        self._config = folder / "config"

    def start(self) -> subprocess.Popen[str]:
        """A server, once it serves."""
        self._config.unlink(missing_ok=True)
        command = [sys.executable, "-m", "sim.app.cli.main", "serve", "--naming", "kubernetes", "--port", "0"]
        command += ["--data-dir", str(self._folder / "data"), "--client-config", str(self._config)]
        command += ["--nodes", str(self._nodes)] if self._nodes else []
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        end_s = time.monotonic() + START_S
        while not self._config.exists():
            if server.poll() is not None or time.monotonic() > end_s:
                server.kill()
                assert server.stderr is not None
                raise LossError(f"the server does not start: {server.stderr.read()}")
            time.sleep(0.02)
        return server

    def connect(self) -> tuple[http.client.HTTPSConnection, dict[str, str]]:
        """A connection to the server, and the headers of a request."""
        config = yaml.safe_load(self._config.read_text())
        host = config["clusters"][0]["cluster"]["server"].removeprefix("https://")
        token = config["users"][0]["user"]["token"]
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        context = ssl._create_unverified_context()
        return http.client.HTTPSConnection(host, context=context, timeout=30), headers

    def write(self, turn: int, until: threading.Event) -> None:
        """Write until the server is gone; note what it acknowledges."""
        connection, headers = self.connect()
        number = 0
        while not until.is_set():
            number += 1
            name = f"m-{number % 7}"
            verb, path = ("PUT", f"{MAPS}/{name}") if name in self.known else ("POST", MAPS)
            body = {"metadata": {"name": name}, "data": {"turn": str(turn * 1_000_000 + number)}}
            try:
                connection.request(verb, path, json.dumps(body), headers)
                answer = connection.getresponse()
                found = json.loads(answer.read())
            except (OSError, http.client.HTTPException, ValueError):
                break
            if answer.status == 409 and verb == "POST":  # an earlier one was not acknowledged
                self.known[name] = ("", 0, 0)
            elif answer.status in (200, 201):
                self._note(found)
        connection.close()

    def _note(self, found: dict[str, Any]) -> None:
        metadata = found["metadata"]
        revision = int(metadata["resourceVersion"])
        self.known[metadata["name"]] = metadata["uid"], revision, int(found["data"]["turn"])
        self.revision = max(self.revision, revision)

    def check(self) -> None:
        """Compare what is there with what is known.  Raises LossError."""
        connection, headers = self.connect()
        connection.request("GET", MAPS, headers=headers)
        listed = json.loads(connection.getresponse().read())
        connection.request("GET", STATE, headers=headers)
        state = json.loads(connection.getresponse().read())
        connection.close()
        if int(listed["metadata"]["resourceVersion"]) < self.revision:
            raise LossError(f"revision {listed['metadata']['resourceVersion']} after {self.revision}")
        if state["virtual_us"] < self.virtual_us:
            raise LossError(f"virtual time {state['virtual_us']} after {self.virtual_us}")
        self.virtual_us = state["virtual_us"]
        there = {one["metadata"]["name"]: one for one in listed["items"]}
        for name, (uid, revision, turn) in self.known.items():
            found = there.get(name)
            if found is None or (uid and found["metadata"]["uid"] != uid):
                raise LossError(f"{name} of uid {uid} is not there")
            if int(found["metadata"]["resourceVersion"]) < revision or int(found["data"]["turn"]) < turn:
                raise LossError(f"{name} is older than what was acknowledged")


def run(kills: int, seed: int, nodes: int, folder: Path, tell: Any = None) -> int:
    """Kill so many servers; the number of writes that were acknowledged.  Raises LossError."""
    drawn, clients, writes = random.Random(seed), Clients(folder, nodes), 0
    for turn in range(kills):
        server = clients.start()
        try:
            clients.check()
            gone = threading.Event()
            writer = threading.Thread(target=clients.write, args=(turn, gone))
            writer.start()
            time.sleep(drawn.uniform(*KILL_S))  # what is measured: a kill at any instant
        finally:
            server.send_signal(signal.SIGKILL)
            server.wait()
            if server.stderr is not None:
                server.stderr.close()
        gone.set()
        writer.join()
        writes = max(writes, clients.revision)
        if tell is not None and turn % 20 == 19:
            tell(f"{turn + 1} kills, revision {clients.revision}, nothing lost")
    server = clients.start()
    try:
        clients.check()
    finally:
        server.send_signal(signal.SIGINT)
        server.wait()
        if server.stderr is not None:
            server.stderr.close()
    return writes


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--nodes", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            writes = run(arguments.kills, arguments.seed, arguments.nodes, Path(folder), print)
        except LossError as error:
            print(f"lost: {error}")
            return 1
    print(f"{arguments.kills} kills, revision {writes} at the end, nothing lost")
    return 0


if __name__ == "__main__":
    sys.exit(main())
