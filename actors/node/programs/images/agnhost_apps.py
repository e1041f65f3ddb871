"""Subcommands of agnhost that talk to others: a guestbook of several pods, a client of the cluster.

Mirrors  kubernetes test/images/agnhost/guestbook, inclusterclient (v1.25): flags, endpoints, texts.
Differs  `inclusterclient` asks for a namespace in place of /healthz.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Generator
from hashlib import sha256
from urllib.parse import quote

from actors.node.programs.files.errors import FileError
from actors.node.programs.images.agnhost import DIED, Steps, iso, log, routed, say, text_of, web
from actors.node.programs.images.flags import flags_of
from actors.node.programs.images.hooks import ask
from actors.node.programs.network.http import HttpError, Request, Response, exchange
from actors.node.programs.network.resolver import lookup, read_file
from actors.node.programs.network.sockets import SocketError
from actors.node.programs.network.tasks import Tasks, dial, drop, network_of
from actors.node.programs.process import Process
from actors.node.programs.waits import Main, Wait
from sim.units import SECOND

REGISTER_US, RETRY_US, DIAL_US = 15 * SECOND, SECOND, 5 * SECOND
STORE_MAX = 10_000
SECRETS = "/var/run/secrets"  # in it, a folder with the name of the product


def _pause(process: Process, length_us: int) -> Steps:
    until_us = process.now_us + length_us
    while process.now_us < until_us:
        yield Wait(until_us=until_us)


def _get(process: Process, host: str, port: int, wanted: str) -> Generator[Wait, None, str]:
    """The body of an answer.  Raises SocketError, HttpError."""
    found = yield from lookup(process, host)
    if not found.hosts:
        raise SocketError("EHOSTUNREACH")
    until_us = process.now_us + DIAL_US
    connection = yield from dial(process, found.hosts[0], port, until_us)
    try:
        asked = Request(
            "GET", f"/{wanted}", (("Host", f"{host}:{port}"), ("User-Agent", "Go-http-client/1.1"))
        )
        response = yield from exchange(connection, asked, lambda: process.now_us, until_us)
        return response.body.decode("utf-8", "surrogateescape")
    finally:
        drop(process, connection)


class _Guestbook:
    """One pod of a guestbook.  store: keys and values; replicas: addresses that get what is set"""

    def __init__(self, process: Process, port: int) -> None:
        self.process, self.port = process, port
        self.store: dict[str, object] = {}
        self.replicas: list[str] = []

    def join(self, primary: str) -> Main:
        """Get the store of the primary, and what is set from then on; 1 if there is none."""
        process = self.process
        until_us = process.now_us + REGISTER_US
        while process.now_us < until_us:
            request = f"register?host={network_of(process).host}"
            yield from log(process, f"Registering to primary: {primary}:{self.port}/{request}")
            try:
                said = json.loads((yield from _get(process, primary, self.port, request)))
                self.store = dict(said["data"])
            except (SocketError, HttpError) as error:
                text = f"encountered error while registering to primary: {error.text}. Retrying in 1s."
                yield from log(process, text)
                yield from _pause(process, RETRY_US)
                continue
            except (ValueError, KeyError, TypeError):
                break
            yield from log(process, f"Registered to node: {primary}")
            return 0
        yield from log(process, "Timed out while registering to primary.")
        return 1

    def register(self, request: Request) -> Generator[Wait, None, Response]:
        """Another pod wants what is set from now on."""
        host = request.form("host")
        yield from log(self.process, f"GET /register?host={host}")
        if host not in self.replicas and len(self.replicas) < STORE_MAX:
            self.replicas.append(host)
        return _said({"data": self.store})

    def get(self, request: Request) -> Generator[Wait, None, Response]:
        """A value, or all."""
        key = request.form("key")
        yield from log(self.process, f"GET /get?key={key}")
        return _said({"data": self.store.get(key, "") if key else self.store})

    def set(self, request: Request) -> Generator[Wait, None, Response]:
        """Set a value, here and in the replicas."""
        key, value = request.form("key"), request.form("value")
        yield from log(self.process, f"GET /set?key={key}&value={value}")
        if not key or len(self.store) >= STORE_MAX:
            return text_of("cannot set with empty key.\n", 400)
        self.store[key] = value
        for replica in self.replicas:
            try:
                yield from _get(
                    self.process, replica, self.port, f"set?key={quote(key)}&value={quote(value)}"
                )
            except (SocketError, HttpError) as error:
                text = f"encountered error while propagating to replica '{replica}': {error.text}\n"
                return text_of(text, 417)
        return _said({"message": "Updated"})

    def front(self, request: Request) -> Generator[Wait, None, Response]:
        """Pass a request on to the primary or a replica."""
        command, key, value = request.form("cmd").lower(), request.form("key"), request.form("value")
        yield from log(self.process, f"GET /guestbook?cmd={command}&key={key}&value={value}")
        if command not in ("get", "set"):
            return text_of(f"unsupported cmd: '{command}'\n", 400)
        if command == "set" and not key:
            return text_of("cannot set with empty key.\n", 400)
        host = "agnhost-replica" if command == "get" else "agnhost-primary"
        wanted = f"{command}?key={quote(key)}&value={quote(value)}"
        try:
            return text_of((yield from _get(self.process, host, self.port, wanted)))
        except (SocketError, HttpError) as error:
            return text_of(f"encountered error: {error.text}\n", 417)


def _said(value: object) -> Response:
    return text_of(json.dumps(value, separators=(",", ":")))


def guestbook(process: Process) -> Main:
    """Serve a guestbook: as its front, as the primary, or as a replica of it."""
    flags, _ = flags_of(process.words[2:])
    book, tasks = _Guestbook(process, int(flags.get("backend-port", "6379"))), Tasks(process)
    web(process, tasks, int(flags.get("http-port", "80")), routed(
        {"/register": book.register, "/get": book.get, "/set": book.set, "/guestbook": book.front}
    ))  # fmt: skip
    primary = flags.get("replicaof") or flags.get("slaveof") or ""

    def join() -> Steps:
        if (yield from book.join(primary)):
            tasks.end(1)

    if primary:
        tasks.add(join())
    return (yield from tasks.run(DIED))


def _token(process: Process) -> str:
    files = process.container.files
    try:
        names = sorted(files.listdir(SECRETS, process))
    except FileError:
        return ""
    return read_file(process, f"{SECRETS}/{names[0]}/serviceaccount/token").strip() if names else ""


def inclusterclient(process: Process) -> Main:
    """Ask the API server again and again, and print a digest of the token."""
    flags, _ = flags_of(process.words[2:])
    interval_us = int(flags.get("poll-interval", "30")) * SECOND

    def klog(level: str, text: str) -> Steps:
        now = iso(process)
        yield from say(
            process, f"{level}{now[5:7]}{now[8:10]} {now[11:19]}.000000       1 main.go:61] {text}", 2
        )

    yield from klog("I", "started")
    while True:
        yield from _pause(process, interval_us)
        yield from klog("I", "calling /healthz")
        token = _token(process)
        if token:
            digest = urlsafe_b64encode(sha256(f"salt|Bearer {token}".encode()).digest()).decode().rstrip("=")
            yield from klog("I", f"authz_header={digest}")
        else:
            yield from klog("E", "authz_header=<empty>")
        reply = yield from ask(process, "get", "namespaces", "", "default")
        if not reply.code:
            yield from klog("E", "status=failed")


APPS = {"guestbook": guestbook, "inclusterclient": inclusterclient}
