"""redis: a server of strings, and its client.

Mirrors  the image redis 7: PING, ECHO, SET, GET, DEL, EXISTS, KEYS, DBSIZE, FLUSHALL, INFO, SELECT,
         AUTH, QUIT in RESP2 and inline; redis-cli prints answers as it does without a terminal.
Differs  other commands get the error of an unknown one; keys do not expire and are lost at the end;
         a password is read from --requirepass only; a replica says that it follows its master, and
         copies nothing.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from actors.node.programs.ends import receive, send
from actors.node.programs.network.resolver import lookup
from actors.node.programs.network.sockets import Connection, SocketError
from actors.node.programs.network.tasks import Tasks, dial
from actors.node.programs.process import Process
from actors.node.programs.waits import PAUSE, Main, Wait

PORT = 6379
INPUT_MAX = 1 << 20  # bytes of one command
KEYS_MAX = 100_000
OK = b"+OK\r\n"
VERSION = "7.0.4"


def parsed(data: bytes) -> tuple[list[bytes], int] | None:
    """The first command of a stream and its length; None if it is not complete.  Raises ValueError."""
    line, found, _ = data.partition(b"\r\n" if data[:1] == b"*" else b"\n")
    if not found:
        return None
    if data[:1] != b"*":
        return line.strip().split(), len(line) + 1
    words, at = [], len(line) + 2
    for _word in range(int(line[1:])):
        head, found, _ = data[at:].partition(b"\r\n")
        if not found:
            return None
        if head[:1] != b"$":
            raise ValueError
        size, at = int(head[1:]), at + len(head) + 2
        if not 0 <= size <= INPUT_MAX:
            raise ValueError
        if len(data) < at + size + 2:
            return None
        words.append(data[at : at + size])
        at += size + 2
    return words, at


def bulk(data: bytes | None) -> bytes:
    """A string of bytes, or none."""
    return b"$-1\r\n" if data is None else b"$%d\r\n%s\r\n" % (len(data), data)


class Session:
    """A client of a server.  words: of the server's command line; store: its keys"""

    def __init__(self, words: Sequence[str], store: dict[bytes, bytes]) -> None:
        self.words = words
        self.store = store
        self.is_known = not self.option("--requirepass")

    def option(self, name: str) -> str:
        """An argument of the server; "" without it."""
        words = self.words
        return words[words.index(name) + 1] if name in words[:-1] else ""

    def answer(self, words: Sequence[bytes]) -> bytes:
        """The answer to a command."""
        name, args = words[0].upper(), words[1:]
        if name == b"AUTH":
            wanted = self.option("--requirepass").encode("utf-8", "surrogateescape")
            if not wanted:
                text = b"AUTH <password> called without any password configured for the default user."
                return b"-ERR %s Are you sure your configuration is correct?\r\n" % text
            self.is_known = self.is_known or args[-1:] == [wanted]
            wrong = b"-WRONGPASS invalid username-password pair or user is disabled.\r\n"
            return OK if args[-1:] == [wanted] else wrong
        if not self.is_known and name != b"QUIT":
            return b"-NOAUTH Authentication required.\r\n"
        if name == b"INFO":
            return bulk(self._information().encode())
        return answer(self.store, words)

    def _information(self) -> str:
        master = self.option("--replicaof") or self.option("--slaveof")
        role = "role:slave\r\n" if master else "role:master\r\n"
        follows = f"master_host:{master}\r\n" if master else ""
        return (
            f"# Server\r\nredis_version:{VERSION}\r\nredis_mode:standalone\r\n\r\n# Replication\r\n{role}{follows}"
            "connected_slaves:0\r\nmaster_link_status:up\r\n"
        )


def answer(store: dict[bytes, bytes], words: Sequence[bytes]) -> bytes:
    """The answer to a command of a client that has signed in."""
    name, args = words[0].upper(), words[1:]
    match name, len(args):
        case b"PING", 0:
            return b"+PONG\r\n"
        case ((b"PING" | b"ECHO"), 1):
            return bulk(args[0])
        case b"SET", count if count >= 2:
            if args[0] not in store and len(store) >= KEYS_MAX:
                return b"-OOM command not allowed when used memory > 'maxmemory'.\r\n"
            store[args[0]] = args[1]
            return OK
        case b"GET", 1:
            return bulk(store.get(args[0]))
        case ((b"DEL" | b"EXISTS"), count) if count:
            held = [key for key in args if key in store]
            for key in held if name == b"DEL" else ():
                store.pop(key, None)
            return b":%d\r\n" % len(held)
        case b"DBSIZE", 0:
            return b":%d\r\n" % len(store)
        case ((b"FLUSHALL" | b"FLUSHDB"), _):
            store.clear()
            return OK
        case ((b"SELECT" | b"QUIT"), _):
            return OK
    shown = words[0].decode(errors="replace")[:128]
    return f"-ERR unknown command '{shown}', with args beginning with: \r\n".encode()


def redis_server(process: Process) -> Main:
    """Serve."""
    store: dict[bytes, bytes] = {}
    words = process.words
    port = int(words[words.index("--port") + 1]) if "--port" in words[:-1] else PORT

    def connected(connection: Connection) -> Generator[Wait, None, None]:
        data, session = b"", Session(words, store)
        while True:
            try:
                found = parsed(data)
            except ValueError:
                yield from send(connection, b"-ERR Protocol error\r\n")
                return
            if found is None:
                more = yield from receive(connection)
                if not more or len(data) > 2 * INPUT_MAX:
                    return
                data += more
                continue
            command, size = found
            data = data[size:]
            yield PAUSE
            if command:
                yield from send(connection, session.answer(command))
            if command[:1] and command[0].upper() == b"QUIT":
                return

    tasks = Tasks(process)
    try:
        tasks.listen(port, connected)
    except SocketError as error:
        text = f"Could not create server TCP listening socket *:{port}: bind: {error.text}\n"
        yield from send(process.ends[1], text.encode())
        return 1
    if not process.container.woken:
        yield from send(process.ends[1], b"* Ready to accept connections\n")
    return (yield from tasks.run())


def shown(data: bytes) -> bytes:
    """An answer as redis-cli prints it without a terminal."""
    if data[:1] == b"$":
        return b"\n" if data[1:3] == b"-1" else data.partition(b"\r\n")[2][:-2] + b"\n"
    return data[1:].replace(b"\r\n", b"\n")


def redis_cli(process: Process) -> Main:
    """Send one command."""
    host, port, rest = "127.0.0.1", PORT, list(process.words[1:])
    password = process.env.get("REDISCLI_AUTH", "")
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option in ("-h", "-p", "-a", "-n", "--user", "--pass", "-t") and rest:
            value = rest.pop(0)
            host, port = (value, port) if option == "-h" else (host, int(value) if option == "-p" else port)
            password = value if option in ("-a", "--pass") else password
    found = yield from lookup(process, host)
    try:
        if not found.hosts:
            raise SocketError("EHOSTUNREACH")
        connection = yield from dial(process, found.hosts[0], port)
    except SocketError as error:
        text = f"Could not connect to Redis at {host}:{port}: {error.text}\n"
        yield from send(process.ends[2], text.encode())
        return 1
    words = [word.encode("utf-8", "surrogateescape") for word in rest or ["PING"]]
    signs_in = [b"AUTH", password.encode("utf-8", "surrogateescape")] if password else []
    lines = [line for line in (signs_in, words) if line]
    yield from send(
        connection, b"".join(b"*%d\r\n" % len(line) + b"".join(map(bulk, line)) for line in lines)
    )
    connection.shutdown()
    data = b""
    while more := (yield from receive(connection)):
        data += more
    if password:
        first, _, data = data.partition(b"\r\n")
        if first != b"+OK":
            yield from send(process.ends[2], b"AUTH failed: %s\n" % first[1:])
    if not data:
        yield from send(process.ends[2], b"Error: Server closed the connection\n")
        return 1
    yield from send(process.ends[1], shown(data))
    return 0
