"""Subcommands of agnhost that check a network: nettest, and net with its two runners.

Mirrors  kubernetes test/images/agnhost/nettest, net, net/nat/closewait.go (v1.25): flags, paths
         and texts.
Differs  nettest does not read the version of the API server before it reads the endpoints; the
         options of a runner are printed as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from typing import Any

from actors.node.programs.images.agnhost import DIED, Route, Steps, log, routed, say, text_of, web
from actors.node.programs.images.flags import flags_of
from actors.node.programs.images.hooks import ask
from actors.node.programs.network.http import HttpError, Request, Response, exchange
from actors.node.programs.network.resolver import lookup
from actors.node.programs.network.sockets import SocketError
from actors.node.programs.network.tasks import Tasks, dial, drop, listen_at
from actors.node.programs.process import Process, Signal
from actors.node.programs.waits import Main, Wait
from sim.units import SECOND

LOG_MAX = 500  # lines of nettest, as upstream keeps
PEERS_MAX = 10_000  # names of sources that nettest remembers
ROUNDS = 15  # how often nettest contacts all endpoints
DIAL_US = 30 * SECOND


def _pause(process: Process, length_us: int) -> Steps:
    until_us = process.now_us + length_us
    while process.now_us < until_us:
        yield Wait(until_us=until_us)


def _served(process: Process, tasks: Tasks, delay_s: int) -> Main:
    """Run the tasks; SIGTERM ends them after a delay, if one is given."""
    code = yield from tasks.run(0 if delay_s else DIED)
    if delay_s and Signal.TERM in process.pending:
        yield from log(process, f"Sleeping {delay_s} seconds before exit ...")
        process.pending.clear()
        yield from _pause(process, delay_s * SECOND)
    return code


# --- nettest --------------------------------------------------------------------------------------


class _Nettest:
    """What one pod of nettest knows: the pods that it has contacted, and those that contacted it."""

    def __init__(self, process: Process, namespace: str, service: str, peers: int) -> None:
        self.process = process
        self.namespace, self.service, self.peers = namespace, service, peers
        self.sent: dict[str, int] = {}
        self.received: dict[str, int] = {}
        self.errors: list[str] = []
        self.log: list[str] = []
        self.contacting = True

    def note(self, text: str) -> None:
        """Add a line to the log that /read shows."""
        self.log = [*self.log[1 - LOG_MAX :], text]

    def status(self, _: Request) -> Generator[Wait, None, Response]:
        """pass, running or fail."""
        yield from ()
        if len(self.sent) >= self.peers and len(self.received) >= self.peers:
            return text_of("pass")
        if not self.contacting:
            self.note(
                f"Declaring failure for {self.namespace}/{self.service} with {len(self.sent)} sent and "
                f"{len(self.received)} received and {self.peers} peers"
            )
        return text_of("running" if self.contacting else "fail")

    def read(self, _: Request) -> Generator[Wait, None, Response]:
        """All that is known."""
        yield from ()
        shown = {
            "Hostname": self.process.container.hostname, "Sent": self.sent or None, "Received": self.received or None,
            "Errors": self.errors or None, "Log": self.log or None, "StillContactingPeers": self.contacting,
        }  # fmt: skip
        return text_of(json.dumps(shown, indent="\t"))

    def write(self, request: Request) -> Generator[Wait, None, Response]:
        """Another pod contacts this one."""
        yield from ()
        try:
            entry = json.loads(request.body or b"null")
        except ValueError as error:
            entry = None
            self.errors = [*self.errors[1 - LOG_MAX :], str(error)]
        source = entry.get("Source") if isinstance(entry, dict) else None
        host = self.process.container.hostname
        if not isinstance(source, str) or not source:
            self.errors = [*self.errors[1 - LOG_MAX :], f"{host}: Got request with no source"]
        elif source in self.received or len(self.received) < PEERS_MAX:
            self.received[source] = self.received.get(source, 0) + 1
        return text_of(json.dumps({"Hostname": host}, separators=(",", ":")) + "\n")

    def endpoints(self) -> Generator[Wait, None, list[str]]:
        """host:port of each endpoint of the service, in order."""
        reply = yield from ask(self.process, "get", "endpoints", self.namespace, self.service)
        if reply.item is None:
            self.note(f"Unable to read the endpoints for {self.namespace}/{self.service}: {reply.code}.")
            return []
        result = {
            f"{address['ip']}:{port['port']}"
            for subset in reply.item.obj.get("subsets") or ()
            for address in subset.get("addresses") or ()
            for port in subset.get("ports") or ()
        }
        return sorted(result)

    def contact_all(self) -> Steps:
        """Wait until there are enough endpoints, then contact all of them several times."""
        process = self.process
        sleep_us = max(5, self.peers // 10) * SECOND
        until_us = process.now_us + max(300, self.peers) * SECOND
        while process.now_us < until_us:
            result = yield from self.endpoints()
            if len(result) >= self.peers:
                break
            self.note(
                f"{self.namespace}/{self.service} has {len(result)} endpoints ({result}), which is less than "
                f"{self.peers} as expected. Waiting for all endpoints to come up."
            )
            yield from _pause(process, sleep_us)
        for _ in range(ROUNDS):
            for one in (yield from self.endpoints()):
                self.note(f"Attempting to contact http://{one}")
                yield from self._contact(one)
            yield from _pause(process, sleep_us)
        self.contacting = False

    def _contact(self, place: str) -> Steps:
        host, _, port = place.rpartition(":")
        process, until_us = self.process, self.process.now_us + DIAL_US
        body = json.dumps({"Source": process.container.hostname, "Dest": f"http://{place}"}).encode()
        headers = (("Host", place), ("Content-Type", "application/json"), ("Content-Length", str(len(body))))
        connection = None
        try:
            connection = yield from dial(process, host, int(port), until_us)
            request = Request("POST", "/write", headers, body)
            response = yield from exchange(connection, request, lambda: process.now_us, until_us)
            name = str(json.loads(response.body)["Hostname"])
        except (SocketError, HttpError) as error:
            self.note(f'Warning: unable to contact the endpoint "http://{place}": {error.text}')
        except (ValueError, KeyError, TypeError):
            self.note(f"Warning: unable to unmarshal response from 'http://{place}'")
        else:
            if name in self.sent or len(self.sent) < PEERS_MAX:
                self.sent[name] = self.sent.get(name, 0) + 1
        finally:
            if connection is not None:
                drop(process, connection)


def nettest(process: Process) -> Main:
    """Contact every pod of a service, and expect a request of each."""
    flags, _ = flags_of(process.words[2:])
    service = flags.get("service", "nettest")
    if not service:
        yield from log(process, "Must provide -service flag.")
        return 1
    peers = int(flags.get("peers", "8"))
    state, tasks = _Nettest(process, flags.get("namespace", "default"), service, peers), Tasks(process)

    def leave(_: Request) -> Generator[Wait, None, Response]:
        yield from ()
        tasks.end()
        return text_of("")

    routes: dict[str, Route] = {
        "/quit": leave, "/read": state.read, "/write": state.write, "/status": state.status
    }  # fmt: skip
    port = int(flags.get("port", "8080"))
    try:
        web(process, tasks, port, routed(routes))
    except SocketError as error:
        yield from log(process, f"listen tcp :{port}: bind: {error.text.lower()}")
        return 1
    tasks.add(state.contact_all())
    return (yield from _served(process, tasks, int(flags.get("delay-shutdown", "0"))))


# --- net ------------------------------------------------------------------------------------------


class _Failed(Exception):
    """A runner has failed.  The argument is why."""


def _close_wait_server(process: Process, options: dict[str, Any], said: list[str]) -> Steps:
    """Accept a client, close the connection in one direction, and wait."""
    host, _, port = str(options.get("LocalAddr") or "").rpartition(":")
    listener = listen_at(process, int(port), host)
    said.append(f"Server listening on {options['LocalAddr']}")
    try:
        while (connection := listener.accept()) is None:
            yield Wait((listener.readable,))
        said.append("Client connected")
        connection.shutdown()
        seconds = int(options.get("PostFinTimeoutSeconds") or 0)
        said.append(f"Server sent FIN, waiting {seconds} seconds")
        try:
            yield from _pause(process, seconds * SECOND)
        finally:
            connection.close()
        said.append("Done")
    finally:
        drop(process, listener)


def _close_wait_client(process: Process, options: dict[str, Any], said: list[str]) -> Steps:
    """Connect, expect the end of what the server sends, and wait with the connection open."""
    host, _, port = str(options.get("RemoteAddr") or "").rpartition(":")
    result = yield from lookup(process, host or "127.0.0.1")
    if not result.hosts:
        raise _Failed(f"lookup {host}: no such host")
    connection = yield from dial(process, result.hosts[0], int(port), process.now_us + DIAL_US)
    said.append("Connected to server")
    limit_s = int(options.get("TimeoutSeconds") or 0)
    until_us = process.now_us + limit_s * SECOND if limit_s > 0 else None
    try:
        while (data := connection.read(1)) is None:
            if until_us is not None and process.now_us >= until_us:
                raise _Failed("read tcp: i/o timeout")
            yield Wait((connection.readable,), until_us)
        if data:
            raise _Failed("Got data but expected EOF")
        seconds = int(options.get("PostFinTimeoutSeconds") or 0)
        said.append(f"Server has half-closed the connection, waiting {seconds} seconds")
        if options.get("LeakConnection"):
            said.append("Leaking client connection (assigning to global variable)")
        yield from _pause(process, seconds * SECOND)
        said.append("Done")
    finally:
        if not options.get("LeakConnection"):
            drop(process, connection)


RUNNERS: dict[str, Callable[[Process, dict[str, Any], list[str]], Steps]] = {
    "nat-closewait-client": _close_wait_client,
    "nat-closewait-server": _close_wait_server,
}


def _execute(process: Process, name: str, given: str) -> Generator[Wait, None, tuple[str, str]]:
    """The output of a runner, and why it has failed, or ""."""
    said: list[str] = []
    problem = ""
    if name not in RUNNERS:
        return "", f"Invalid runner: '{name}', see --help"
    try:
        options = json.loads(given)
        if not isinstance(options, dict):
            raise ValueError("not an object")
    except ValueError as error:
        return "", f"Invalid options JSON: {error}"
    yield from log(process, f"Options: {json.dumps(options)}")
    said.append(f"Run {json.dumps(options)}")
    try:
        yield from RUNNERS[name](process, options, said)
    except SocketError as error:
        problem = error.text.lower()
    except (ValueError, TypeError):
        problem = "missing port in address"
    except _Failed as error:
        problem = str(error)
    return "".join(f"# closewait.go: {line}\n" for line in said), problem


def net(process: Process) -> Main:
    """Execute a runner, or serve requests to execute one."""
    flags, _ = flags_of(process.words[2:])
    served, runner = flags.get("serve", ""), flags.get("runner", "")
    if not served and not runner:
        yield from log(process, "Must set either --runner or --serve, see --help")
        return 1
    if not served:
        output, problem = yield from _execute(process, runner, flags.get("options", ""))
        if problem:
            yield from log(process, f"Error: {problem}")
        yield from say(process, f"output:\n\n{output}".removesuffix("\n"))
        return int(bool(problem))

    def run(request: Request) -> Generator[Wait, None, Response]:
        parts = request.path.split("/")
        if len(parts) != 3 or parts[1] != "run":
            return text_of(f"invalid request to run: [{' '.join(parts)}]\n", 400)
        output, problem = yield from _execute(process, parts[2], request.body.decode("utf-8", "replace"))
        if problem:
            return text_of(f"Error from runner: {problem}\noutput:\n\n{output}\n", 500)
        return text_of(f"ok\noutput:\n\n{output}")

    tasks, (host, _, port) = Tasks(process), served.rpartition(":")
    yield from log(process, f"Running server on {served}")
    try:
        web(process, tasks, int(port), routed({}, run))
    except SocketError as error:
        yield from log(process, f"listen tcp {host}:{port}: bind: {error.text.lower()}")
        return 1
    except ValueError:
        yield from log(process, f"listen tcp: address {served}: missing port in address")
        return 1
    return (yield from _served(process, tasks, int(flags.get("delay-shutdown", "0"))))


TESTS = {"net": net, "nettest": nettest}
