"""postgres: a server that knows no tables, `pg_isready` and `psql`.

Mirrors  PostgreSQL 14: the frontend/backend protocol 3.0 (start-up, simple query), the outputs and
         exit codes of pg_isready and of psql's aligned and unaligned formats.
Differs  of SQL, `SELECT` of constants, `version()` and `current_user` are known, transactions and
         `SET` succeed, and anything else is an error; a password is sent and compared in plain.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from struct import pack, unpack

from actors.node.programs.ends import receive, send
from actors.node.programs.network.resolver import lookup
from actors.node.programs.network.sockets import Connection, SocketError
from actors.node.programs.network.tasks import Tasks, dial
from actors.node.programs.process import Process
from actors.node.programs.waits import PAUSE, Main, Wait
from sim.patterns import pattern
from sim.units import SECOND, format_time

PORT = 5432
VERSION = "PostgreSQL 14.5 on x86_64-pc-linux-gnu, compiled by gcc, 64-bit"
PROTOCOL, SSL_REQUEST = 196_608, 80_877_103
MESSAGE_MAX = 1 << 20
READY_US = 3 * SECOND  # pg_isready: default timeout
_CONSTANT = pattern(r"(-?\d+)|'([^']*)'|(version\(\))|(current_user|current_database\(\)|now\(\))", 2)
_SILENT = ("BEGIN", "COMMIT", "ROLLBACK", "SET")

Rows = tuple[list[str], list[list[str]]]  # names of columns, and rows


def message(kind: bytes, body: bytes) -> bytes:
    """A message of the protocol."""
    return kind + pack(">i", len(body) + 4) + body


def _text(data: str) -> bytes:
    return data.encode("utf-8", "surrogateescape") + b"\0"


def _error(code: str, text: str, severity: str = "ERROR") -> bytes:
    return message(b"E", b"S" + _text(severity) + b"C" + _text(code) + b"M" + _text(text) + b"\0")


class _Reader:
    """The messages of a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._held = b""

    def take(self, size: int) -> Generator[Wait, None, bytes]:
        """So many bytes; fewer at the end."""
        while len(self._held) < size:
            more = yield from receive(self._connection)
            if not more:
                break
            self._held += more
        taken, self._held = self._held[:size], self._held[size:]
        return taken

    def message(self, *, kind: bool = True) -> Generator[Wait, None, tuple[bytes, bytes]]:
        """The next message; an empty kind and body at the end.  kind: False for the first one"""
        yield PAUSE
        head = yield from self.take(4 + kind)
        if len(head) < 4 + kind:
            return b"", b""
        size = unpack(">i", head[kind:])[0] - 4
        if not 0 <= size <= MESSAGE_MAX:
            return b"", b""
        return head[:kind], (yield from self.take(size))


# --- the server -----------------------------------------------------------------------------------


def postgres(process: Process) -> Main:
    """Serve."""
    port = _port(process)
    tasks = Tasks(process)
    try:
        tasks.listen(port, lambda connection: _serve(process, connection))
    except SocketError as error:
        yield from _log(process, f'LOG:  could not bind IPv4 address "0.0.0.0": {error.text}')
        return 1
    if not process.container.woken:
        yield from _log(process, f"LOG:  starting {VERSION}")
        yield from _log(process, f'LOG:  listening on IPv4 address "0.0.0.0", port {port}')
        yield from _log(process, "LOG:  database system is ready to accept connections")
    code = yield from tasks.run()
    yield from _log(process, "LOG:  received fast shutdown request")
    yield from _log(process, "LOG:  database system is shut down")
    return code


def _port(process: Process) -> int:
    words, env = process.words, process.env
    given = words[words.index("-p") + 1] if "-p" in words[:-1] else ""
    return int(given or env.get("POSTGRESQL_PORT_NUMBER") or env.get("PGPORT") or PORT)


def _log(process: Process, text: str) -> Generator[Wait, None, None]:
    when = format_time(process.container.wall_us(process.now_us))[:19].replace("T", " ")
    end = process.ends.get(2)
    if end is not None:
        yield from send(end, f"{when}.000 UTC [{process.pid}] {text}\n".encode())


def _serve(process: Process, connection: Connection) -> Generator[Wait, None, None]:
    reader = _Reader(connection)
    while True:
        _, body = yield from reader.message(kind=False)
        if len(body) < 4 or body[:4] == pack(">i", SSL_REQUEST):
            if not body:
                return
            yield from send(connection, b"N")
            continue
        break
    if body[:4] != pack(">i", PROTOCOL):
        yield from send(connection, _error("0A000", "unsupported frontend protocol", "FATAL"))
        return
    names = [part.decode("utf-8", "replace") for part in body[4:].split(b"\0")]
    given = dict(zip(names[::2], names[1::2], strict=False))
    user = given.get("user", "")
    if not (yield from _authenticated(process, connection, reader, user)):
        return
    states = message(b"S", _text("server_version") + _text("14.5")) + message(
        b"S", _text("client_encoding") + _text("UTF8")
    )
    yield from send(connection, message(b"R", pack(">i", 0)) + states + message(b"Z", b"I"))
    while True:
        kind, body = yield from reader.message()
        if kind in (b"", b"X"):
            return
        answer = _query(process, body, given) if kind == b"Q" else _error("0A000", "not known here")
        yield from send(connection, answer + message(b"Z", b"I"))


def _authenticated(
    process: Process, connection: Connection, reader: _Reader, user: str
) -> Generator[Wait, None, bool]:
    """Ask for the password, if there is one and the client is not on this host."""
    wanted = process.env.get("POSTGRES_PASSWORD", "")
    if not wanted or connection.peer.host.startswith("127."):
        return True
    yield from send(connection, message(b"R", pack(">i", 3)))
    _, body = yield from reader.message()
    if body.rstrip(b"\0").decode("utf-8", "replace") == wanted:
        return True
    text = f'password authentication failed for user "{user}"'
    yield from _log(process, f"FATAL:  {text}")
    yield from send(connection, _error("28P01", text, "FATAL"))
    return False


def _query(process: Process, body: bytes, given: Mapping[str, str]) -> bytes:
    answer = b""
    for statement in body.rstrip(b"\0").decode("utf-8", "replace").split(";"):
        words = statement.split()
        if not words:
            continue
        verb = words[0].upper()
        if verb in _SILENT:
            answer += message(b"C", _text(verb))
            continue
        rows = _selected(process, statement.strip(), given) if verb == "SELECT" else None
        if rows is None:
            process.container.unknown(f"postgres does not know {' '.join(words)[:80]}")
            return answer + _error("0A000", "this statement is not known to the simulation")
        answer += _described(rows) + message(b"C", _text(f"SELECT {len(rows[1])}"))
    return answer or message(b"I", b"")


def _selected(process: Process, statement: str, given: Mapping[str, str]) -> Rows | None:
    """The answer to a SELECT of constants; None for any other."""
    names, values = [], []
    for part in statement[len("SELECT") :].split(","):
        found = _CONSTANT.fullmatch(part.strip())
        if found is None:
            return None
        if found[3]:
            names.append("version")
            values.append(VERSION)
        elif found[4]:
            name = found[4].lower().removesuffix("()")
            names.append(name)
            now = format_time(process.container.wall_us(process.now_us))[:19].replace("T", " ")
            user = given.get("user", "")
            values.append({"now": f"{now}+00", "current_user": user}.get(name, given.get("database") or user))
        else:
            names.append("?column?")
            values.append(found[1] if found[1] is not None else found[2])
    return names, [values]


def _described(rows: Rows) -> bytes:
    names, values = rows
    columns = b"".join(_text(name) + pack(">ihihih", 0, 0, 25, -1, -1, 0) for name in names)
    made = message(b"T", pack(">h", len(names)) + columns)
    for row in values:
        cells = b"".join(pack(">i", len(_text(cell)) - 1) + _text(cell)[:-1] for cell in row)
        made += message(b"D", pack(">h", len(row)) + cells)
    return made


# --- the clients ----------------------------------------------------------------------------------


class _Options:
    """Options of a client, from its words and its environment."""

    def __init__(self, process: Process, valued: str) -> None:
        self.switches: set[str] = set()
        self.commands: list[str] = []
        env = process.env
        user = env.get("PGUSER") or env.get("POSTGRES_USER") or "postgres"
        self.values = {
            "h": env.get("PGHOST") or "127.0.0.1", "p": env.get("PGPORT") or str(PORT), "U": user,
            "d": env.get("PGDATABASE") or "",
        }  # fmt: skip
        words, places = list(process.words[1:]), ["d", "U"]
        longs = {"host": "h", "port": "p", "username": "U", "dbname": "d", "command": "c", "timeout": "t"}
        longs |= {"tuples-only": "t", "no-align": "A", "quiet": "q", "no-password": "w"}
        while words:
            word = words.pop(0)
            name, equals, value = word[2:].partition("=")
            if word.startswith("--"):
                letter = longs.get(name, name)
            elif word[:1] == "-" and len(word) > 1:
                letter, value = word[1], word[2:]
                if letter not in valued and value:
                    words.insert(0, f"-{value}")
                    value = ""
            else:
                if places:
                    self.values[places.pop(0)] = word
                continue
            if letter not in valued:
                self.switches.add(letter)
                continue
            value = value if value or equals else (words.pop(0) if words else "")
            if letter == "c":
                self.commands.append(value)
            else:
                self.values[letter] = value
        for part in self.values["d"].split() if "=" in self.values["d"] else ():
            name, _, value = part.partition("=")
            self.values[{"host": "h", "port": "p", "user": "U", "dbname": "d"}.get(name, name)] = value
        if self.values["h"].startswith("/"):
            self.values["h"] = "127.0.0.1"

    @property
    def port(self) -> int:
        """The port."""
        return int(self.values["p"]) if self.values["p"].isdecimal() else PORT


def _connected(
    process: Process, options: _Options, timeout_us: int | None = None
) -> Generator[Wait, None, Connection]:
    """A connection to the server.  Raises SocketError."""
    found = yield from lookup(process, options.values["h"])
    if not found.hosts:
        raise SocketError("EHOSTUNREACH")
    until_us = None if timeout_us is None else process.now_us + timeout_us
    return (yield from dial(process, found.hosts[0], options.port, until_us))


def pg_isready(process: Process) -> Main:
    """Say if a server accepts connections: 0, or 2 if there is none."""
    options = _Options(process, "hpUdt")
    timeout = options.values.get("t", "")
    accepts = True
    try:
        yield from _connected(process, options, int(timeout) * SECOND if timeout.isdecimal() else READY_US)
    except SocketError:
        accepts = False
    if "q" not in options.switches:
        text = "accepting connections" if accepts else "no response"
        yield from send(process.ends[1], f"{options.values['h']}:{options.port} - {text}\n".encode())
    return 0 if accepts else 2


def psql(process: Process) -> Main:
    """Run commands: -c, or the lines of the input."""
    options = _Options(process, "hpUdcvfFPR")
    host, port = options.values["h"], options.port
    user = options.values["U"]
    lead = f'connection to server at "{host}", port {port} failed: '
    try:
        connection = yield from _connected(process, options)
    except SocketError as error:
        hint = "\n\tIs the server running on that host and accepting TCP/IP connections?"
        yield from send(process.ends[2], f"psql: error: {lead}{error.text}{hint}\n".encode())
        return 2
    reader = _Reader(connection)
    database = options.values["d"] or user
    start = pack(">i", PROTOCOL) + b"".join(map(_text, ("user", user, "database", database))) + b"\0"
    yield from send(connection, message(b"", start))
    refused = yield from _greeted(process, connection, reader)
    if refused:
        yield from send(process.ends[2], f"psql: error: {lead}FATAL:  {refused}\n".encode())
        return 2
    commands = options.commands
    if not commands:
        held = b""
        while data := (yield from receive(process.ends[0])):
            held = (held + data)[:MESSAGE_MAX]
        commands = [held.decode("utf-8", "replace")]
    code = 0
    for command in commands:
        yield from send(connection, message(b"Q", _text(command)))
        code = yield from _shown(process, reader, options.switches)
        if code and "c" in options.switches:
            break
    yield from send(connection, message(b"X", b""))
    return code


def _greeted(process: Process, connection: Connection, reader: _Reader) -> Generator[Wait, None, str]:
    """Sign in; "" or the reason of a refusal."""
    while True:
        kind, body = yield from reader.message()
        if kind == b"R" and body == pack(">i", 3):
            yield from send(connection, message(b"p", _text(process.env.get("PGPASSWORD", ""))))
        elif kind == b"E":
            return _reason(body)
        elif kind in (b"Z", b""):
            return "" if kind else "the server closed the connection"


def _reason(body: bytes) -> str:
    fields = {part[:1]: part[1:] for part in body.split(b"\0") if part}
    return fields.get(b"M", b"").decode("utf-8", "replace")


def _shown(process: Process, reader: _Reader, switches: set[str]) -> Main:
    """Print the answer to a query."""
    names: list[str] = []
    rows: list[list[str]] = []
    code = 0
    while True:
        kind, body = yield from reader.message()
        if kind in (b"Z", b""):
            return code if kind else 2
        if kind == b"E":
            yield from send(process.ends[2], f"ERROR:  {_reason(body)}\n".encode())
            code = 1
        elif kind == b"T":
            names, rows = _names(body), []
        elif kind == b"D":
            rows.append(_cells(body))
        elif kind == b"C":
            tag = body.rstrip(b"\0").decode()
            text = _table(names, rows, switches) if names else "" if "q" in switches else f"{tag}\n"
            yield from send(process.ends[1], text.encode("utf-8", "surrogateescape"))
            names = []


def _names(body: bytes) -> list[str]:
    found, at = [], 2
    for _ in range(unpack(">h", body[:2])[0]):
        end = body.index(b"\0", at)
        found.append(body[at:end].decode("utf-8", "replace"))
        at = end + 1 + 18
    return found


def _cells(body: bytes) -> list[str]:
    found, at = [], 2
    for _ in range(unpack(">h", body[:2])[0]):
        size = max(0, unpack(">i", body[at : at + 4])[0])
        found.append(body[at + 4 : at + 4 + size].decode("utf-8", "replace"))
        at += 4 + size
    return found


def _table(names: list[str], rows: list[list[str]], switches: set[str]) -> str:
    """Rows as psql prints them: numbers to the right, a line of their count."""
    only, count = "t" in switches, f"({len(rows)} row{'s' if len(rows) != 1 else ''})\n"
    if "A" in switches:
        lines = ["|".join(row) for row in rows] if only else ["|".join(names), *map("|".join, rows)]
        return "".join(f"{line}\n" for line in lines) + ("" if only else count)
    widths = [max(len(cell) for cell in column) for column in zip(names, *rows, strict=True)]
    body = "".join(
        "|".join(
            f" {cell.rjust(width) if cell.lstrip('-').isdecimal() else cell.ljust(width)} "
            for cell, width in zip(row, widths, strict=True)
        ).rstrip() + "\n"
        for row in rows
    )  # fmt: skip
    if only:
        return f"{body}\n"
    head = "|".join(f" {name.center(width)} " for name, width in zip(names, widths, strict=True))
    line = "+".join("-" * (width + 2) for width in widths)
    return f"{head}\n{line}\n{body}{count}\n"
