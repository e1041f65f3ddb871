"""Commands that look names up and connect: nslookup, dig, getent, wget, curl, nc.

Mirrors  busybox 1.35 networking/{nslookup,wget,nc}.c; curl 7.83 src/tool_operate.c: exit codes and
         texts; getent(1).
Differs  wget and curl speak HTTP without TLS; wget shows no progress; a redirection is followed at
         most `REDIRECTS_MAX` times.
"""

from __future__ import annotations

from collections.abc import Generator
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

from actors.node.programs.commands.tool import CHUNK, Failed, Options, Tool, Usage
from actors.node.programs.ends import BrokenPipe, receive, send
from actors.node.programs.files.special import sysctls
from actors.node.programs.network.dns import NOERROR, TTL_S
from actors.node.programs.network.http import HttpError, Request, Response, exchange, header
from actors.node.programs.network.resolver import TIMEOUT, Resolved, is_address, lookup, search
from actors.node.programs.network.sockets import Address, Connection, SocketError
from actors.node.programs.network.tasks import bind_at, dial, drop, hold, listen_at, network_of
from actors.node.programs.process import Process, Signal
from actors.node.programs.waits import PAUSE, Main, Wait
from sim.units import SECOND

REDIRECTS_MAX = 10
_KINDS = ("A", "AAAA", "CNAME", "PTR", "SRV", "TXT")
_REDIRECTS = (301, 302, 303, 307, 308)
# curl's exit codes
_UNSUPPORTED, _NO_NAME, _NO_CONNECTION, _HTTP_ERROR, _TIMED_OUT, _EMPTY = 1, 6, 7, 22, 28, 52


class _Fetched(NamedTuple):
    """The end of a request.  url: of the response, after redirections"""

    response: Response
    url: str


class _Problem(Exception):
    """A request failed.  kind: "name", "connect", "time" or "http"; text: why; code: of the error"""

    def __init__(self, kind: str, text: str, code: str = "") -> None:
        super().__init__(kind, text)
        self.kind, self.text, self.code = kind, text, code


def _fetch(
    tool: Tool, url: str, method: str, headers: dict[str, str], body: bytes, until_us: int | None
) -> Generator[Wait, None, Response]:
    """One request to a URL.  Raises _Problem."""
    process, parts = tool.process, urlsplit(url)
    if parts.scheme != "http":
        process.container.unknown(f"{tool.name} speaks no {parts.scheme}")
        raise _Problem("scheme", f"not supported: {parts.scheme}")
    host, port = parts.hostname or "", parts.port or 80
    found = yield from lookup(process, host, ("A", "AAAA"))
    if not found.hosts:
        raise _Problem("name", host)
    try:
        connection = yield from dial(process, found.hosts[0], port, until_us)
    except SocketError as error:
        limited = error.code == "ETIMEDOUT" and until_us is not None
        where = str(Address(found.hosts[0], port))
        raise _Problem("time" if limited else "connect", f"{where}): {error.text}", error.code) from None
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    rows = tuple({"Host": parts.netloc.rpartition("@")[2], **headers}.items())
    try:
        return (
            yield from exchange(
                connection, Request(method, target, rows, body), lambda: process.now_us, until_us
            )
        )
    except SocketError as error:
        raise _Problem("time" if error.code == "ETIMEDOUT" else "http", error.text) from None
    except HttpError as error:
        raise _Problem("http", error.text) from None
    finally:
        drop(process, connection)


def _followed(
    tool: Tool, url: str, method: str, headers: dict[str, str], body: bytes, until_us: int | None
) -> Generator[Wait, None, _Fetched]:
    for _ in range(REDIRECTS_MAX):
        response = yield from _fetch(tool, url, method, headers, body, until_us)
        place = header(response.headers, "location")
        if response.code not in _REDIRECTS or not place:
            return _Fetched(response, url)
        url = urljoin(url, place)
        if response.code not in (307, 308):
            method, body = "GET", b""
        yield PAUSE
    raise _Problem("http", "too many redirections")


def _with_scheme(url: str) -> str:
    return url if "://" in url else f"http://{url}"


def wget(tool: Tool) -> Main:
    """Fetch files by HTTP, as busybox does."""
    options = tool.options(
        "cqSO:T:Y:U:P:H:d:sk", {
            "quiet": "q", "server-response": "S", "output-document": "O", "timeout": "T", "header": "H",
            "spider": "s", "post-data": "d", "no-check-certificate": "k", "user-agent": "U", "continue": "c",
        },
    )  # fmt: skip
    if not options.rest:
        raise Usage("missing URL")
    for given in options.rest:
        url = _with_scheme(given)
        limit_s = options.last("T", "900")
        until_us = tool.process.now_us + round(float(limit_s) * SECOND)
        agent = {"User-Agent": options.last("U", "Wget"), "Connection": "close"}
        method, body = ("POST", options.last("d").encode()) if "d" in options else ("GET", b"")
        loud = "q" not in options
        parts = urlsplit(url)
        try:
            if loud:
                found = yield from lookup(tool.process, parts.hostname or "", ("A", "AAAA"))
                if found.hosts:
                    where = Address(found.hosts[0], parts.port or 80)
                    yield from tool.warn(f"Connecting to {parts.netloc} ({where})\n")
            got = (yield from _followed(tool, url, method, agent, body, until_us)).response
        except _Problem as problem:
            raise Failed(_wget_text(problem, parts.netloc)) from None
        if "S" in options:
            yield from tool.warn("".join(f"  {line}\n" for line in _head(got)))
        if got.code >= 400:
            raise Failed(f"server returned error: HTTP/{got.version} {got.code} {got.phrase}")
        if "s" in options:
            if loud:
                yield from tool.warn("remote file exists\n")
            continue
        name = options.last("O") or parts.path.rpartition("/")[2] or "index.html"
        if name == "-":
            yield from tool.write(got.body)
            if loud:
                yield from tool.warn("writing to stdout\nwritten to stdout\n")
        else:
            tool.files.write(name, got.body, tool.process)
            if loud:
                yield from tool.warn(f"saving to '{name}'\n'{name}' saved\n")
    return 0


def _wget_text(problem: _Problem, netloc: str) -> str:
    if problem.kind == "name":
        return f"bad address '{problem.text}'"
    if problem.kind == "connect":
        where, _, why = problem.text.partition("): ")
        return f"can't connect to remote host ({where.rpartition(':')[0]}): {why}"
    if problem.kind == "time":
        return "download timed out"
    if problem.kind == "http":
        return f"error getting response: {problem.text}"
    return f"{problem.text}: {netloc}"


def _head(got: Response) -> list[str]:
    return [
        f"HTTP/{got.version} {got.code} {got.phrase}",
        *(f"{name}: {value}" for name, value in got.headers),
    ]


_CURL = "sSfo:OqkgLX:d:H:m:w:iIvA:u:G4b:"
_CURL_LONGS = {
    "silent": "s", "show-error": "S", "fail": "f", "output": "o", "remote-name": "O", "insecure": "k",
    "location": "L", "request": "X", "data": "d", "data-raw": "d", "header": "H", "max-time": "m", "write-out": "w",
    "include": "i", "head": "I", "verbose": "v", "user-agent": "A", "get": "G", "globoff": "g", "ipv4": "4",
    "connect-timeout": "m", "retry": "b", "user": "u",
}  # fmt: skip


def curl(tool: Tool) -> Main:
    """Fetch URLs by HTTP."""
    options = tool.options(_CURL, _CURL_LONGS, code=2)
    if not options.rest:
        raise Failed("no URL specified!", 2)
    headers = {"User-Agent": options.last("A", "curl/7.83.1"), "Accept": "*/*"}
    data = "&".join(options.all("d"))
    if data and "G" not in options:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    for line in options.all("H"):
        name, _, value = line.partition(":")
        headers = {key: held for key, held in headers.items() if key.lower() != name.strip().lower()}
        headers[name.strip()] = value.strip()
    method = options.last("X") or (
        "HEAD" if "I" in options else "POST" if data and "G" not in options else "GET"
    )
    for given in options.rest:
        url = _with_scheme(given)
        if "G" in options and data:
            url += f"{'&' if '?' in url else '?'}{data}"
        body = b"" if "G" in options else data.encode()
        tool.code = yield from _curl_one(tool, options.last("b"), url, method, headers, body, options)
    return tool.code


def _curl_one(
    tool: Tool, retries: str, url: str, method: str, headers: dict[str, str], body: bytes, options: Options
) -> Generator[Wait, None, int]:
    limit = options.last("m")
    process, wait_s = tool.process, 1
    for left in range(int(retries or 0), -1, -1):
        until_us = process.now_us + round(float(limit) * SECOND) if limit else None
        try:
            if "L" in options:
                fetched = yield from _followed(tool, url, method, headers, body, until_us)
            else:
                fetched = _Fetched((yield from _fetch(tool, url, method, headers, body, until_us)), url)
        except _Problem as problem:
            code, text = _curl_error(problem, url, limit)
            if left and problem.kind in ("time", "name"):
                yield from _pause(tool, wait_s)
                wait_s *= 2
                continue
            if "w" in options:
                yield from tool.write(_written(options.last("w"), _Fetched(Response(0), url)))
            if "s" not in options or "S" in options:
                yield from tool.warn(f"curl: ({code}) {text}\n")
            return code
        got = fetched.response
        if left and got.code in (408, 429, 500, 502, 503, 504):
            yield from _pause(tool, wait_s)
            wait_s *= 2
            continue
        failed = "f" in options and got.code >= 400
        if not failed:
            yield from _curl_output(tool, options, got, url)
        if "w" in options:
            yield from tool.write(_written(options.last("w"), fetched))
        if failed:
            if "s" not in options or "S" in options:
                yield from tool.warn(f"curl: (22) The requested URL returned error: {got.code}\n")
            return _HTTP_ERROR
        return 0
    return 0


def _curl_output(tool: Tool, options: Options, got: Response, url: str) -> Generator[Wait, None, None]:
    data = got.body
    if "i" in options or "I" in options:
        data = "".join(f"{line}\r\n" for line in [*_head(got), ""]).encode() + data
    name = options.last("o") or (urlsplit(url).path.rpartition("/")[2] if "O" in options else "")
    if name and name != "-":
        tool.files.write(name, data, tool.process)
    else:
        yield from tool.write(data)


def _pause(tool: Tool, seconds: int) -> Generator[Wait, None, None]:
    until_us = tool.process.now_us + seconds * SECOND
    while tool.process.now_us < until_us:
        yield Wait(until_us=until_us)


def _curl_error(problem: _Problem, url: str, limit: str) -> tuple[int, str]:
    parts = urlsplit(url)
    if problem.kind == "name":
        return _NO_NAME, f"Could not resolve host: {problem.text}"
    if problem.kind == "connect":
        why = problem.text.partition("): ")[2]
        return (
            _NO_CONNECTION,
            f"Failed to connect to {parts.hostname} port {parts.port or 80} after 0 ms: {why}",
        )
    if problem.kind == "time":
        return _TIMED_OUT, f"Connection timed out after {round(float(limit or 0) * 1000)} milliseconds"
    if problem.kind == "scheme":
        return _UNSUPPORTED, f'Protocol "{parts.scheme}" not supported or disabled in libcurl'
    return _EMPTY, problem.text


def _written(text: str, fetched: _Fetched) -> str:
    """The text of --write-out."""
    got = fetched.response
    values = {
        "http_code": f"{got.code:03}", "response_code": f"{got.code:03}", "url_effective": fetched.url,
        "size_download": str(len(got.body)), "content_type": header(got.headers, "content-type"),
        "time_total": "0.000000",
    }  # fmt: skip
    for name, value in values.items():
        text = text.replace(f"%{{{name}}}", value)
    return text.replace("\\n", "\n").replace("\\t", "\t").replace("\\r", "\r")


def nslookup(tool: Tool) -> Main:
    """Ask a DNS server for a name, as busybox does."""
    options = tool.options("+", None) if not tool.args[:1] or not tool.args[0].startswith("-") else None
    words = (
        list(options.rest) if options is not None else [one for one in tool.args if not one.startswith("-")]
    )
    kinds = [one.partition("=")[2].upper() for one in tool.args if one.startswith(("-type=", "-query="))]
    if not words:
        raise Usage("missing name")
    servers = (words[1],) if len(words) > 1 else ()
    name, process = words[0], tool.process
    results: list[tuple[str, Resolved]] = []
    for kind in kinds or ["A", "AAAA"]:
        results.append((kind, (yield from search(process, name, kind, servers))))
    server = results[0][1].server
    if all(found.answer.code == TIMEOUT for _, found in results):
        raise Failed(";; connection timed out; no servers could be reached")
    yield from tool.write(f"Server:\t\t{server}\nAddress:\t{server}:53\n\n")
    good = [found for _, found in results if found.answer.code == NOERROR]
    for found in good:
        for record in found.answer.records:
            if record.kind in ("A", "AAAA"):
                yield from tool.write(f"Name:\t{record.name.rstrip('.')}\nAddress: {record.value}\n")
            elif record.kind == "CNAME":
                yield from tool.write(
                    f"{record.name.rstrip('.')}\tcanonical name = {record.value.rstrip('.')}\n"
                )
            else:
                label = {"SRV": "service", "PTR": "name", "TXT": "text"}[record.kind]
                yield from tool.write(f"{record.name.rstrip('.')}\t{label} = {record.value.rstrip('.')}\n")
        yield from tool.write("\n")
    if not good:
        last = results[0][1]
        yield from tool.write(f"** server can't find {last.name}: {last.answer.code}\n\n")
        return 1
    return 0


def dig(tool: Tool) -> Main:
    """Ask a DNS server for a name, by its full name unless `+search` is given."""
    words: list[str] = []
    servers: tuple[str, ...] = ()
    kind, by_list, reverse = "", False, False
    brief = "+short" in tool.args
    for word in tool.args:
        if word.startswith("@"):
            servers = (word[1:],)
        elif word in ("+search", "+nosearch"):
            by_list = word == "+search"
        elif word == "-x":
            reverse = True
        elif word.upper() in _KINDS:
            kind = word.upper()
        elif not word.startswith(("+", "-")):
            words.append(word)
    for name in words:
        asked = ip_address(name).reverse_pointer if reverse and is_address(name) else name
        found = yield from search(
            tool.process, asked, kind or ("PTR" if reverse else "A"), servers, by_list=by_list
        )
        if found.answer.code == TIMEOUT:
            yield from tool.write(";; connection timed out; no servers could be reached\n")
            return 9
        records = found.answer.records
        if not brief:
            yield from tool.write(f";; ->>HEADER<<- opcode: QUERY, status: {found.answer.code}, id: 0\n")
            yield from tool.write(";; ANSWER SECTION:\n" if records else "")
        for record in records:
            full = f"{record.name.rstrip('.')}.\t{TTL_S}\tIN\t{record.kind}\t"
            yield from tool.write(f"{'' if brief else full}{record.value}\n")
        if not brief:
            yield from tool.write(f"\n;; SERVER: {found.server}#53({found.server})\n")
    return 0


def getent(tool: Tool) -> Main:
    """Look entries of databases up: hosts and ahosts."""
    options = tool.options("+", None)
    if len(options.rest) < 2 or options.rest[0] not in ("hosts", "ahosts", "ahostsv4"):
        raise Failed(
            f"Unknown database: {options.rest[0]}" if options.rest else "wrong number of arguments", 1
        )
    for name in options.rest[1:]:
        found = yield from lookup(
            tool.process, name, ("A",) if options.rest[0] == "ahostsv4" else ("AAAA", "A")
        )
        if not found.hosts:
            return 2
        for host in found.hosts:
            if options.rest[0] == "hosts":
                yield from tool.write(f"{host:<15} {found.name}\n")
            else:
                for label in ("STREAM", "DGRAM", "RAW"):
                    yield from tool.write(
                        f"{host:<15} {label:<6} {found.name if label == 'STREAM' else ''}\n"
                    )
    return 0


def nc(tool: Tool) -> Main:
    """Connect to a port, or listen at one, and copy."""
    options = tool.options("zvuw:lp:kn")
    process = tool.process
    if "u" in options:
        return (yield from _datagrams(tool, options))
    if "l" in options:
        port = options.last("p") or (options.rest[-1] if options.rest else "0")
        listener = listen_at(process, int(port))
        while (connection := listener.accept()) is None:
            yield Wait((listener.readable,))
        hold(process, connection)
        return (yield from _copied(tool, connection))
    if len(options.rest) < 2:
        raise Usage("missing host and port")
    host, port = options.rest[0], options.rest[1]
    found = yield from lookup(process, host, ("A", "AAAA"))
    if not found.hosts:
        raise Failed(f"bad address '{host}'")
    until_us = process.now_us + round(float(options.last("w")) * SECOND) if "w" in options else None
    try:
        connection = yield from dial(process, found.hosts[0], int(port), until_us)
    except SocketError as error:
        if "z" in options and "v" not in options:
            return 1
        raise Failed(f"{host} ({found.hosts[0]}:{port}): {error.text}") from None
    if "v" in options:
        yield from tool.warn(f"{host} ({found.hosts[0]}:{port}) open\n")
    if "z" in options:
        return 0
    return (yield from _copied(tool, connection))


def _datagrams(tool: Tool, options: Options) -> Main:
    """Copy by datagrams: to a host, or to the one that sent first."""
    process, source = tool.process, tool.process.ends.get(0)
    wait_us = round(float(options.last("w")) * SECOND) if "w" in options else None
    if "l" in options:
        port = options.last("p") or (options.rest[-1] if options.rest else "0")
        socket = bind_at(process, int(port))
        while (came := socket.receive_from()) is None:
            yield Wait((socket.readable,))
        socket.peer = came[0]
        yield from tool.write(came[1])
    else:
        if len(options.rest) < 2:
            raise Usage("missing host and port")
        found = yield from lookup(process, options.rest[0])
        if not found.hosts:
            raise Failed(f"bad address '{options.rest[0]}'")
        socket = hold(process, network_of(process).bind())
        socket.peer = Address(found.hosts[0], int(options.rest[1]))
    if "z" in options:
        return 0
    idle_us: int | None = None
    while True:
        yield from tool.flush()
        data = socket.read(CHUNK)
        if data:
            yield from tool.write(data)
        elif socket.error:
            raise Failed(f"read: {SocketError(socket.error).text}")
        typed = None if source is None else source.read(CHUNK)
        if typed:
            socket.write(typed)
        if typed == b"":
            source = None
        if data or typed:
            idle_us = None
            yield PAUSE
            continue
        if wait_us is not None and source is None:
            idle_us = process.now_us + wait_us if idle_us is None else idle_us
            if process.now_us >= idle_us:
                return 0
        yield Wait((socket.readable, *(() if source is None else (source.readable,))), idle_us)


def ping(tool: Tool) -> Main:
    """Send echo requests, one a second: -c count, -W seconds for an answer, -w seconds in all, -q."""
    options = tool.options("c:W:w:i:s:I:t:q46nAO")
    if not options.rest:
        raise Usage("usage error: Destination address required", 2)
    process, name = tool.process, options.rest[0]
    if not (process.identity.may("NET_RAW") or _has_echo_sockets(process)):
        raise (
            Failed("permission denied (are you root?)")
            if tool.busybox
            else Failed("socktype: SOCK_RAW: Operation not permitted", 2)
        )
    found = yield from lookup(process, name, ("A",))
    if not found.hosts:
        raise (
            Failed(f"bad address '{name}'")
            if tool.busybox
            else Failed(f"{name}: Name or service not known", 2)
        )
    host, size = found.hosts[0], options.last("s") or "56"
    shown = "data bytes" if tool.busybox else f"({int(size) + 28}) bytes of data."
    lead = f"PING {name} ({host}): {size} {shown}" if tool.busybox else f"PING {name} ({host}) {size}{shown}"
    yield from tool.write(lead + "\n")
    count = int(options.last("c") or 0)
    until_us = process.now_us + round(float(options.last("w")) * SECOND) if "w" in options else None
    wait_us = round(float(options.last("W") or 10) * SECOND)
    process.caught.add(int(Signal.INT))
    took: list[float] = []
    sent = 0
    began_us = process.now_us
    while (
        (not count or sent < count)
        and not process.pending
        and (until_us is None or process.now_us < until_us)
    ):
        sent += 1
        at_us, echo_us = process.now_us, network_of(process).echo_us(host)
        last = bool(count) and sent == count
        if echo_us is not None:
            yield from _pause_us(tool, echo_us)
            took.append(max(echo_us, 50) / 1000)
            number = f"seq={sent - 1}" if tool.busybox else f"icmp_seq={sent}"
            if "q" not in options:
                where = f"{int(size) + 8} bytes from {host}: {number} ttl=64"
                yield from tool.write(f"{where} time={took[-1]:.3f} ms\n")
        elif last:
            yield from _pause_us(tool, wait_us)
        yield from tool.flush()
        if not last:
            yield from _pause_us(tool, at_us + SECOND - process.now_us)
    lost = round(100 * (sent - len(took)) / sent) if sent else 0
    got = f"{len(took)} {'packets ' if tool.busybox else ''}received, {lost}% packet loss"
    end = "" if tool.busybox else f", time {(process.now_us - began_us) // 1000}ms"
    yield from tool.write(f"\n--- {name} ping statistics ---\n{sent} packets transmitted, {got}{end}\n")
    if took:
        numbers = f"{min(took):.3f}/{sum(took) / len(took):.3f}/{max(took):.3f}"
        rest = (
            f"round-trip min/avg/max = {numbers} ms\n"
            if tool.busybox
            else f"rtt min/avg/max/mdev = {numbers}/0.000 ms\n"
        )
        yield from tool.write(rest)
    return 0 if took else 1


def _has_echo_sockets(process: Process) -> bool:
    """True if the user may open sockets for echo requests alone (icmp(7))."""
    bounds = sysctls(process).get("net.ipv4.ping_group_range", "1 0").split()
    groups = (process.identity.gid, *process.identity.groups)
    if len(bounds) != 2 or not all(one.isdigit() for one in bounds):
        return False
    return any(int(bounds[0][:10]) <= gid <= int(bounds[1][:10]) for gid in groups)


def _pause_us(tool: Tool, length_us: int) -> Generator[Wait, None, None]:
    process = tool.process
    until_us = process.now_us + length_us
    while process.now_us < until_us and not process.pending:
        yield Wait(until_us=until_us)


def _copied(tool: Tool, connection: Connection) -> Main:
    """Copy the input to the other side, then what it sends to the output."""
    source = tool.process.ends.get(0)
    try:
        while source is not None and (data := (yield from receive(source))):
            yield PAUSE
            yield from send(connection, data)
    except BrokenPipe:
        return 1
    connection.shutdown()
    while data := (yield from receive(connection)):
        yield from tool.write(data)
        yield from tool.flush()
    return 1 if connection.error else 0


COMMANDS = {
    "curl": curl,
    "dig": dig,
    "getent": getent,
    "nc": nc,
    "nslookup": nslookup,
    "ping": ping,
    "wget": wget,
}
