"""What a program does at the same time: one process that serves several connections.

Also the parts of programs that open, hold and close sockets.

Holds: sockets are descriptors of their process, so that its end closes them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

from actors.node.programs.ends import BrokenPipe, End
from actors.node.programs.files.special import sysctls
from actors.node.programs.network.fabric import Network
from actors.node.programs.network.sockets import Connection, Datagrams, Listener, SocketError
from actors.node.programs.process import Process, Signal
from actors.node.programs.waits import PAUSE, Source, Wait

TASKS_MAX = 256  # connections of one program at once; others wait until one is over
FIRST_FD = 3

Steps = Generator[Wait, None, None]
End_ = TypeVar("End_", bound=End)


def network_of(process: Process) -> Network:
    """The network of a process's pod."""
    found = process.container.network
    if found is None:
        found = process.container.network = Network()
    assert isinstance(found, Network)
    return found


def listen_at(process: Process, port: int, host: str = "") -> Listener:
    """Accept connections at a port, as a descriptor of the process.  Raises SocketError."""
    _check_port(process, port)
    return hold(process, network_of(process).listen(port, host))


def bind_at(process: Process, port: int) -> Datagrams:
    """Take datagrams at a port, as a descriptor of the process.  Raises SocketError."""
    _check_port(process, port)
    return hold(process, network_of(process).bind(port))


def _check_port(process: Process, port: int) -> None:
    """Raises SocketError at a privileged port without CAP_NET_BIND_SERVICE (ip(7))."""
    first = sysctls(process).get("net.ipv4.ip_unprivileged_port_start", "")[:5]
    if 0 < port < int(first if first.isdigit() else 1024) and not process.identity.may("NET_BIND_SERVICE"):
        raise SocketError("EACCES")


def hold(process: Process, end: End_) -> End_:
    """Make an end a descriptor of the process."""
    fd = FIRST_FD
    while fd in process.ends:
        fd += 1
    process.ends[fd] = end
    return end


def drop(process: Process, end: End) -> None:
    """Close the descriptor of an end, if it is open."""
    for fd, held in tuple(process.ends.items()):
        if held is end:
            process.close(fd)
            return


def dial(
    process: Process, host: str, port: int, until_us: int | None = None
) -> Generator[Wait, None, Connection]:
    """Connect to an address; the connection is a descriptor.  Raises SocketError.

    until_us: when to give up
    """
    attempt = network_of(process).connect(host, port)
    taken = False
    try:
        while not attempt.ready:
            if until_us is not None and process.now_us >= until_us:
                raise SocketError("ETIMEDOUT")
            yield Wait((attempt,), until_us)
        if attempt.connection is None:
            raise SocketError(attempt.code)
        taken = True
        return hold(process, attempt.connection)
    finally:
        if not taken:
            attempt.abandon()


class Tasks:
    """The tasks of one process.

    ending: set when the program is to end; code: its exit code then
    """

    __slots__ = ("_listeners", "_process", "_tasks", "code", "ending")

    def __init__(self, process: Process) -> None:
        self._process = process
        self._tasks: list[tuple[Steps, Wait]] = []
        self._listeners: list[tuple[Listener, Callable[[Connection], Steps]]] = []
        self.ending = Source()
        self.code = 0

    def add(self, task: Steps) -> None:
        """Do this too."""
        self._tasks.append((task, PAUSE))

    def listen(self, port: int, serve: Callable[[Connection], Steps], host: str = "") -> None:
        """Serve every connection to a port.  Raises SocketError."""
        self._listeners.append((listen_at(self._process, port, host), serve))

    def end(self, code: int = 0) -> None:
        """End the program."""
        self.code = code
        self.ending.set()

    def run(self, term_code: int = 0) -> Generator[Wait, None, int]:
        """Go on until the program ends, or all tasks have and nothing listens.

        term_code: the exit code at SIGTERM and SIGINT
        """
        process = self._process
        process.caught |= {int(Signal.TERM), int(Signal.INT), int(Signal.QUIT)}
        while self._tasks or self._listeners:
            if process.pending:
                return term_code
            if self.ending.ready:
                return self.code
            self._accept()
            if not self._step():
                yield self._wait()
            else:
                yield PAUSE
        return self.code

    def _accept(self) -> None:
        for listener, serve in self._listeners:
            while len(self._tasks) < TASKS_MAX and (connection := listener.accept()) is not None:
                hold(self._process, connection)
                self._tasks.append((self._served(connection, serve), PAUSE))

    def _served(self, connection: Connection, serve: Callable[[Connection], Steps]) -> Steps:
        try:
            yield from serve(connection)
        finally:
            drop(self._process, connection)

    def _step(self) -> bool:
        """One step of each task that can go on; False if none can."""
        now_us, moved, kept = self._process.now_us, False, []
        tasks, self._tasks = self._tasks, []
        for task, wait in tasks:
            due = wait.until_us is not None and wait.until_us <= now_us
            if not due and not any(source.ready for source in wait.sources):
                kept.append((task, wait))
                continue
            moved = True
            try:
                kept.append((task, next(task)))
            except (StopIteration, BrokenPipe, SocketError):
                continue
        self._tasks = kept + self._tasks
        return moved

    def _wait(self) -> Wait:
        sources = [source for _, wait in self._tasks for source in wait.sources]
        if len(self._tasks) < TASKS_MAX:
            sources += [listener.readable for listener, _ in self._listeners]
        times = [wait.until_us for _, wait in self._tasks if wait.until_us is not None]
        return Wait((self.ending, *dict.fromkeys(sources)), min(times, default=None))
