"""The image agnhost: a program with subcommands for tests of clusters.

Mirrors  kubernetes test/images/agnhost (README.md and the subcommands' sources): flags, endpoints,
         texts.
Differs  no SCTP; `netexec` takes no uploads.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from html import escape
from posixpath import normpath
from urllib.parse import unquote

from actors.node.programs.ends import Null, pipe, receive_all, send
from actors.node.programs.images.flags import flags_of
from actors.node.programs.images.mounts import mounttest
from actors.node.programs.images.web import date_of, document, kind_of
from actors.node.programs.images.webhooks import conversion_webhook, webhook
from actors.node.programs.lookup import NotRunnable, program
from actors.node.programs.network.dns import NOERROR
from actors.node.programs.network.grpc import NOT_SERVING, SERVING, UNKNOWN, answer
from actors.node.programs.network.http import HttpError, Request, Response, exchange, header, serve
from actors.node.programs.network.resolver import lookup, read_file, settings
from actors.node.programs.network.sockets import Address, Connection, SocketError
from actors.node.programs.network.tasks import Tasks, bind_at, dial, drop, hold, network_of
from actors.node.programs.process import NoProcess, Process
from actors.node.programs.waits import Main, Wait
from sim.ident import NAMES
from sim.units import SECOND, format_time, parse_duration_us

DIED = 2  # golang's exit code of a program that a signal ends
DIAL_US = 5 * SECOND
OUTPUT_MAX = 1 << 20
_PLAIN = (("Content-Type", "text/plain; charset=utf-8"),)

Steps = Generator[Wait, None, None]
Route = Callable[[Request], Generator[Wait, None, Response]]


def seconds_of(text: str) -> float:
    """A duration of golang."""
    return parse_duration_us(text) / SECOND if text else 0.0


def say(process: Process, text: str, fd: int = 1) -> Steps:
    """Print a line."""
    end = process.ends.get(fd)
    if end is not None:
        yield from send(end, f"{text}\n".encode("utf-8", "surrogateescape"))


def log(process: Process, text: str) -> Steps:
    """Print a line as golang's package `log` does."""
    words = iso(process)
    yield from say(process, f"{words[:10].replace('-', '/')} {words[11:19]} {text}", 2)


def iso(process: Process) -> str:
    """The time in the format of RFC 3339, in seconds."""
    return format_time(process.container.wall_us(process.now_us))


def routed(routes: Mapping[str, Route], default: Route | None = None) -> Route:
    """The handler of several paths (golang net/http ServeMux: a path with needless parts is moved)."""

    def handle(request: Request) -> Generator[Wait, None, Response]:
        path = request.path
        cleaned = normpath(path).replace("//", "/") + ("/" if path.endswith("/") and path.strip("/") else "")
        if cleaned != path:
            place = cleaned + request.target[len(path) :]
            body = f'<a href="{escape(place)}">Moved Permanently</a>.\n\n' if request.method == "GET" else ""
            headers = (("Content-Type", "text/html; charset=utf-8"), ("Location", place))
            return Response(301, body.encode(), headers)
        chosen = routes.get(request.path, default)
        if chosen is None:
            return Response(404, b"404 page not found\n", _PLAIN)
        return (yield from chosen(request))

    return handle


def web(process: Process, tasks: Tasks, port: int, handle: Route) -> None:
    """Serve HTTP at a port.  Raises SocketError."""

    def connected(connection: Connection) -> Steps:
        yield from serve(connection, handle, lambda: process.now_us, lambda: (("Date", date_of(process)),))

    tasks.listen(port, connected)


def text_of(body: str, code: int = 200) -> Response:
    """A response of plain text."""
    return Response(code, body.encode("utf-8", "surrogateescape"), _PLAIN)


# --- netexec --------------------------------------------------------------------------------------


def netexec(process: Process) -> Main:
    """Serve HTTP and UDP with answers about the server and its client."""
    flags, _ = flags_of(process.words[2:])
    port, udp_port = int(flags.get("http-port", "8080")), int(flags.get("udp-port", "8081"))
    tasks = Tasks(process)
    yield from log(process, f"Started HTTP server on port {port}")
    try:
        web(process, tasks, port, _netexec_routes(process, tasks, udp_port))
    except SocketError as error:
        yield from log(process, f"listen tcp :{port}: bind: {error.text.lower()}")
        return 1
    if udp_port != -1:
        yield from log(process, f"Started UDP server on port  {udp_port}")
        tasks.add(_udp(process, udp_port))
    return (yield from tasks.run(DIED))


def _netexec_routes(process: Process, tasks: Tasks, udp_port: int) -> Route:
    host: str = process.container.hostname

    def said(text: Callable[[Request], str]) -> Route:
        def handle(request: Request) -> Generator[Wait, None, Response]:
            yield from log(process, f"GET {request.path}")
            return text_of(text(request))

        return handle

    def echo(request: Request) -> Generator[Wait, None, Response]:
        message, code = request.form("msg"), request.form("code")
        yield from log(process, f"GET /echo?msg={message}&code={code}")
        if code and not code.isdecimal():
            return text_of(f"argument 'code' must be an integer or empty, got \"{code}\"\n")
        return text_of(message, int(code or 200))

    def redirect(request: Request) -> Generator[Wait, None, Response]:
        place, code = request.form("location"), request.form("code")
        yield from log(process, f"{request.method} /redirect?msg={place}&code={code}")
        return Response(int(code or 302), b"", (("Location", place),))

    def leave(request: Request) -> Generator[Wait, None, Response]:
        code, wait_s = request.form("code"), seconds_of(request.form("wait"))
        yield from log(
            process, f"Will begin shutdown in {request.form('wait') or '0s'}, then will exit with {code or 0}"
        )
        until_us = process.now_us + round(wait_s * SECOND)
        while process.now_us < until_us:
            yield Wait(until_us=until_us)
        tasks.end(int(code or 0))
        return text_of("")

    def stop(_: Request) -> Generator[Wait, None, Response]:
        yield from log(process, "GET /shutdown")
        tasks.end(0)
        return text_of("")

    def healthz(_: Request) -> Generator[Wait, None, Response]:
        yield from log(process, "GET /healthz")
        ready = udp_port != -1 and network_of(process).datagrams(udp_port) is not None
        return text_of("", 200 if ready else 412)

    def shell(request: Request) -> Generator[Wait, None, Response]:
        command = request.form("shellCommand") or request.form("cmd")
        yield from log(process, f"GET /shell?cmd={command}")
        code, output = yield from _shell(process, command)
        result = {"output": output} if output else {}
        if code:
            result["error"] = f"exit status {code}"
        yield from log(
            process, f"Output: map[{' '.join(f'{name}:{value}' for name, value in sorted(result.items()))}]"
        )
        return text_of(_json(dict(sorted(result.items()))))

    def named(_: Request) -> str:
        return host

    def one_header(request: Request) -> str:
        return header(request.headers, request.form("key").lower())

    return routed(
        {
            "/clientip": said(lambda request: request.peer), "/echo": echo, "/exit": leave, "/healthz": healthz,
            "/hostname": said(named), "/hostName": said(named), "/redirect": redirect, "/shell": shell,
            "/shutdown": stop, "/dial": lambda request: _dialled(process, request), "/header": said(one_header),
        },
        lambda _: _now(process),
    )  # fmt: skip


def _now(process: Process) -> Generator[Wait, None, Response]:
    yield from log(process, "GET /")
    return text_of(f"NOW: {iso(process)[:19].replace('T', ' ')} +0000 UTC")


def _json(value: object) -> str:
    """As golang writes it: without spaces, and safe in HTML."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _shell(process: Process, command: str) -> Generator[Wait, None, tuple[int, str]]:
    words = ("/bin/sh", "-c", command)
    reader, writer = pipe()
    try:
        child = process.child(program(process, words), words, ends={0: Null(), 1: writer, 2: writer})
    except (NotRunnable, NoProcess):
        writer.close()
        reader.close()
        return 127, ""
    writer.close()
    data = yield from receive_all(reader, OUTPUT_MAX)
    reader.close()
    while not child.ended.ready:
        yield Wait((child.ended,))
    return child.ended.code, data.decode("utf-8", "surrogateescape")


def _udp(process: Process, port: int) -> Steps:
    socket = bind_at(process, port)
    while True:
        while (found := socket.receive_from()) is None:
            yield Wait((socket.readable,))
        sender, data = found
        text = data.decode(errors="replace").strip().lower()
        if text == "hostname":
            yield from log(process, "Sending udp hostName response")
            socket.send_to(sender, process.container.hostname.encode())
        elif text.startswith("echo "):
            yield from log(process, f"Echoing {text[5:]} to UDP client {sender}\n")
            socket.send_to(sender, text[5:].encode())
        elif text == "clientip":
            yield from log(process, f"Sending clientip back to UDP client {sender}\n")
            socket.send_to(sender, str(sender).encode())
        elif text:
            yield from log(process, f"Unknown UDP command received from {sender}: {text}\n")


def _dialled(process: Process, request: Request) -> Generator[Wait, None, Response]:
    host, port, wanted = (request.form(name) for name in ("host", "port", "request"))
    protocol, tries = request.form("protocol").lower() or "http", request.form("tries") or "1"
    yield from log(
        process, f"GET /dial?host={host}&protocol={protocol}&port={port}&request={wanted}&tries={tries}"
    )
    if not tries.isdecimal():
        return text_of("tries parameter is invalid. \n", 400)
    if not wanted:
        return text_of("request parameter not specified. <nil>\n", 400)
    if protocol not in ("http", "udp"):
        return text_of(f"unsupported protocol. {protocol}\n", 400)
    found = yield from lookup(process, host)
    if not found.hosts or not port.isdecimal():
        return text_of(f"host and/or port param are invalid. lookup {host}: no such host\n", 400)
    answers: list[str] = []
    errors: list[str] = []
    target, last = Address(found.hosts[0], int(port)), ""
    ask = _ask_http if protocol == "http" else _ask_udp
    for _ in range(min(int(tries), 1000)):
        last = ""
        try:
            last = yield from ask(process, target, unquote(wanted))
            answers.append(last)
        except (SocketError, HttpError) as error:
            errors.append(error.text)
    output = {**({"errors": errors} if errors else {}), **({"responses": answers} if last else {})}
    return text_of(_json(output))


def _ask_http(process: Process, target: Address, wanted: str) -> Generator[Wait, None, str]:
    until_us = process.now_us + DIAL_US
    connection = yield from dial(process, target.host, target.port, until_us)
    try:
        asked = Request("GET", f"/{wanted}", (("Host", str(target)), ("User-Agent", "Go-http-client/1.1")))
        response = yield from exchange(connection, asked, lambda: process.now_us, until_us)
        return response.body.decode("utf-8", "surrogateescape")
    finally:
        drop(process, connection)


def _ask_udp(process: Process, target: Address, wanted: str) -> Generator[Wait, None, str]:
    until_us = process.now_us + DIAL_US
    socket = hold(process, network_of(process).bind())
    try:
        socket.peer = target
        socket.write(wanted.encode())
        while (data := socket.read(2048)) is None:
            if process.now_us >= until_us:
                raise SocketError("ETIMEDOUT")
            yield Wait((socket.readable,), until_us)
        if not data:
            raise SocketError(socket.error or "ECONNREFUSED")
        return data.decode("utf-8", "surrogateescape")
    finally:
        drop(process, socket)


# --- other servers --------------------------------------------------------------------------------


def serve_hostname(process: Process) -> Main:
    """Serve the host's name."""
    flags, _ = flags_of(process.words[2:], ("tcp", "udp", "http", "close"))
    port, tasks, host = int(flags.get("port", "9376")), Tasks(process), process.container.hostname

    def named(_: Request) -> Generator[Wait, None, Response]:
        yield from log(process, "HTTP request served")
        return text_of(host)

    def raw(connection: Connection) -> Steps:
        yield from send(connection, host.encode())

    if flags.get("tcp") == "true":
        tasks.listen(port, raw)
    elif flags.get("udp") != "true":
        web(process, tasks, port, named)
    if flags.get("udp") == "true":
        tasks.add(_udp_name(process, port))
    yield from log(process, f"Serving on port {port}.\n")
    return (yield from tasks.run(0))


def _udp_name(process: Process, port: int) -> Steps:
    socket = hold(process, network_of(process).bind(port))
    while True:
        while (found := socket.receive_from()) is None:
            yield Wait((socket.readable,))
        socket.send_to(found[0], process.container.hostname.encode())


def liveness(process: Process) -> Main:
    """Serve /healthz, which succeeds for ten seconds only."""
    tasks, began_us = Tasks(process), process.now_us

    def started(_: Request) -> Generator[Wait, None, Response]:
        yield from ()
        return text_of(f"{(process.now_us - began_us) / SECOND:g}s")

    def healthz(_: Request) -> Generator[Wait, None, Response]:
        yield from ()
        age_s = (process.now_us - began_us) / SECOND
        return text_of(f"error: {age_s:g}", 500) if age_s > 10 else text_of("ok")

    web(process, tasks, 8080, routed({"/started": started, "/healthz": healthz}))
    return (yield from tasks.run(DIED))


def porter(process: Process) -> Main:
    """Serve on each port that the environment names the value of its variable."""
    tasks = Tasks(process)
    for name, value in sorted(process.env.items()):
        prefix, _, port = name.rpartition("_")
        if prefix != "SERVE_PORT" or not port.isdecimal():
            continue

        def handle(_: Request, value: str = value) -> Generator[Wait, None, Response]:
            yield from ()
            return text_of(value)

        web(process, tasks, int(port), handle)
    return (yield from tasks.run(DIED))


def test_webserver(process: Process) -> Main:
    """Serve the files of the container."""
    flags, _ = flags_of(process.words[2:])
    tasks = Tasks(process)

    def handle(request: Request) -> Generator[Wait, None, Response]:
        yield from ()
        found = document(process, "", request.path)
        if isinstance(found, int):
            return text_of("404 page not found\n", found)
        return Response(200, found, (("Content-Type", kind_of(request.path)),))

    web(process, tasks, int(flags.get("port", "80")), handle)
    return (yield from tasks.run(DIED))


def fake_gitserver(process: Process) -> Main:
    """Serve the text by which a client knows the server."""
    tasks = Tasks(process)

    def handle(_: Request) -> Generator[Wait, None, Response]:
        yield from ()
        return text_of("I am a fake git server")

    web(process, tasks, 8000, handle)
    return (yield from tasks.run(DIED))


def grpc_health_checking(process: Process) -> Main:
    """Serve the check of health over gRPC, and paths over HTTP that change its answer."""
    flags, _ = flags_of(process.words[2:])
    tasks, began_us, service = Tasks(process), process.now_us, flags.get("service", "")
    unhealthy_s, stated = int(flags.get("delay-unhealthy-sec", "-1")), [SERVING]

    def status(name: str) -> str:
        if name != service:
            return UNKNOWN
        late = 0 <= unhealthy_s * SECOND <= process.now_us - began_us
        return NOT_SERVING if late else stated[-1]

    def state(word: str) -> Route:
        def handle(_: Request) -> Generator[Wait, None, Response]:
            stated.append(word)
            yield from log(process, f"Mark as {word.lower().replace('_', ' ')}")
            return text_of("")

        return handle

    web(process, tasks, int(flags.get("http-port", "8080")), routed(
        {"/make-serving": state(SERVING), "/make-not-serving": state(NOT_SERVING)}
    ))  # fmt: skip
    tasks.listen(int(flags.get("port", "5000")), lambda connection: answer(connection, status))
    return (yield from tasks.run(DIED))


# --- programs that end ----------------------------------------------------------------------------


def connect(process: Process) -> Main:
    """Connect to an address, and print a word for what went wrong."""
    flags, rest = flags_of(process.words[2:])
    host, colon, port = (rest[0] if rest else "").rpartition(":")
    if not colon or not port.isdecimal():
        yield from say(process, f"UNKNOWN: address {rest[0] if rest else ''}: missing port in address", 2)
        return 1
    found = yield from lookup(process, host.strip("[]"))
    if not found.hosts or found.answer.code != NOERROR:
        yield from say(process, f"DNS: lookup {host}: no such host", 2)
        return 1
    timeout_s = seconds_of(flags.get("timeout", ""))
    until_us = process.now_us + round(timeout_s * SECOND) if timeout_s else None
    try:
        yield from dial(process, found.hosts[0], int(port), until_us)
    except SocketError as error:
        word = {"ETIMEDOUT": "TIMEOUT", "ECONNREFUSED": "REFUSED"}.get(error.code, "OTHER")
        text = word if word != "OTHER" else f"OTHER: {error.text.lower()}"
        yield from say(process, text, 2)
        return 1
    return 0


def entrypoint_tester(process: Process) -> Main:
    """Print the words of the command."""
    yield from say(process, f"[{' '.join(process.words)}]")
    return 0


def etc_hosts(process: Process) -> Main:
    """Print /etc/hosts."""
    yield from send(process.ends[1], read_file(process, "/etc/hosts").encode())
    return 0


def dns_suffix(process: Process) -> Main:
    """Print the search domains."""
    yield from say(process, ",".join(settings(process).search))
    return 0


def dns_server_list(process: Process) -> Main:
    """Print the servers of names."""
    yield from say(process, ",".join(settings(process).servers))
    return 0


_METHODS = ("GET", "PUT", "POST")
_NAMESPACES = (NAMES["kubernetes"].system_namespace, "default", "ns")


def logs_generator(process: Process) -> Main:
    """Print numbered lines at an even rate."""
    flags, _ = flags_of(process.words[2:])
    total = int(flags.get("log-lines-total") or flags.get("t") or 0)
    length_us = round(seconds_of(flags.get("run-duration") or flags.get("d") or "") * SECOND)
    began_us = process.now_us
    for number in range(total):
        until_us = began_us + length_us * (number + 1) // total
        while process.now_us < until_us:
            yield Wait(until_us=until_us)
        shown = f"{number * 2654435761 % (1 << 32):08x}"[:4]
        path = f"/api/v1/namespaces/{_NAMESPACES[number % 3]}/pods/{shown} {200 + number * 7919 % 300}"
        yield from say(process, f"{iso(process)[:19]}Z {number} {_METHODS[number % 3]} {path}")
    return 0


def pause(process: Process) -> Main:
    """Do nothing until a signal comes."""
    yield from say(process, "Paused")
    tasks = Tasks(process)
    tasks.add(_for_ever())
    return (yield from tasks.run(0))


def _for_ever() -> Steps:
    while True:
        yield Wait()


SUBCOMMANDS: Mapping[str, Callable[[Process], Main]] = {
    "connect": connect, "crd-conversion-webhook": conversion_webhook, "dns-server-list": dns_server_list, "dns-suffix": dns_suffix,
    "entrypoint-tester": entrypoint_tester, "etc-hosts": etc_hosts, "fake-gitserver": fake_gitserver,
    "grpc-health-checking": grpc_health_checking,
    "liveness": liveness, "logs-generator": logs_generator, "mounttest": mounttest, "netexec": netexec,
    "pause": pause, "porter": porter, "serve-hostname": serve_hostname, "test-webserver": test_webserver,
    "webhook": webhook,
}  # fmt: skip


def agnhost(process: Process, more: Mapping[str, Callable[[Process], Main]]) -> Main:
    """Run a subcommand.  more: those that are made of these"""
    name = process.words[1] if len(process.words) > 1 else "help"
    runs = SUBCOMMANDS.get(name) or more.get(name)
    if runs is None:
        process.container.unknown(f"agnhost has no subcommand {name} here")
        yield from say(process, f'Error: unknown command "{name}" for "app"', 2)
        return 1
    return (yield from runs(process))
