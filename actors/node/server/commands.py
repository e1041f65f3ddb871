"""Commands in containers: exec, and attach to what a container already runs.

Turns a request into a process with descriptors that lead to the client, and its end into the last
message, a Status.

Mirrors  pkg/kubelet/server/server.go: getExec, getAttach; pkg/kubelet/kubelet.go: GetExec;
         pkg/kubelet/cri/streaming/remotecommand/{exec,attach}.go (v1.25); containerd
         pkg/cri/streaming (v1.6).
Differs  a process continues when its client goes, and meets the end of its input. A client that is
         attached and does not read loses output, where upstream's container waits for it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from actors.node.agent import NodeAgent
from actors.node.pods.worker import Worker
from actors.node.programs.ends import End, Null, pipe
from actors.node.programs.process import Process
from actors.node.runtime.containers import Container
from actors.node.runtime.logs import LogReader
from actors.node.server.following import LineSender
from actors.node.server.inputs import Input
from actors.node.server.logs import clock_of, find_worker
from actors.node.server.peer import ChannelEnd, Peer, Refused, Session
from actors.node.server.processes import CannotStart, start_process
from actors.node.server.terminal import Terminal, TerminalEnd
from sim.api.streams import ERROR, STDERR, STDIN, STDOUT, LogOptions, StreamRequest

NO_CHANNELS = "you must specify at least 1 of stdin, stdout, stderr"
SUCCESS = b'{"metadata":{},"status":"Success"}'


def find_running(agent: NodeAgent, request: StreamRequest) -> tuple[Worker, Container]:
    """The container that a client wants.  Raises Refused."""
    if not (request.stdin or request.stdout or request.stderr):
        raise Refused(400, NO_CHANNELS)
    worker = find_worker(agent, request.namespace, request.name)
    if worker is None:
        raise Refused(404, "pod does not exist")
    found = None if worker.runtime is None else worker.runtime.newest(request.container)
    if found is None or not found.running(agent.now_us):
        raise Refused(500, f'container not found ("{request.container}")')
    return worker, found


def failure(message: str, reason: str, code: int | None = None, cause: tuple[str, str] = ("", "")) -> bytes:
    """A Status as JSON.  cause: of its details, reason and message"""
    details: dict[str, Any] = {
        "causes": [{key: text for key, text in zip(("reason", "message"), cause, strict=True) if text}]
    }
    status = {"metadata": {}, "status": "Failure", "message": message, "reason": reason, "details": details}
    return msgspec.json.encode(status if code is None else {**status, "code": code})


def exit_status(words: tuple[str, ...], code: int) -> bytes:
    """The Status of a process that has ended."""
    if not code:
        return SUCCESS
    text = f"error executing command [{' '.join(words)}], exit code {code}"
    said = f"command terminated with non-zero exit code: {text}"
    return failure(said, "NonZeroExitCode", cause=("ExitCode", str(code)))


def internal_error(text: str) -> bytes:
    """The Status of a command that was not run (apimachinery NewInternalError)."""
    return failure(f"Internal error occurred: {text}", "InternalError", 500, ("", text))


def _unnoticed(_: int) -> None:
    pass


class Interactive(Session):
    """A session in which a client may write to the input of a program."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._input: Input | None = None
        self._terminal: Terminal | None = None

    def put(self, channel: int, data: bytes) -> None:
        """See `Session`."""
        if channel != STDIN or self._input is None:
            self._peer.acknowledge(len(data))
        elif self._terminal is not None and data:
            self._terminal.type(data)
            self._peer.acknowledge(len(data))
        else:
            self._input.put(data)


class Command(Interactive):
    """A process that a client has started."""

    def __init__(self, agent: NodeAgent, request: StreamRequest, peer: Peer) -> None:
        super().__init__(peer)
        self._words = request.command
        worker, container = find_running(agent, request)
        self._open_ends = 0
        self._process: Process | None = None
        self._failed = ""
        ends = self._ends(request)
        try:
            self._process = start_process(worker, container, request.command, ends, terminal=request.tty)
        except CannotStart as error:
            self._failed = internal_error(f"error executing command in container: {error}").decode()
            return
        self._process.ended.watch(self._settle)
        self._start_typing()

    def _start_typing(self) -> None:
        if self._terminal is not None:
            self._terminal.process = self._process

    def _ends(self, request: StreamRequest) -> dict[int, End]:
        peer, ends = self._peer, dict[int, End]()
        if request.stdin:
            ends[0], write = pipe()
            ends[0].terminal = request.tty
            self._input = Input(_unnoticed if request.tty else peer.acknowledge, write)
        else:
            ends[0] = Null()
        if request.tty:
            ends[1] = TerminalEnd(peer, self._closed)
            ends[2] = ends[1].share()
            self._open_ends = 1
            if self._input is not None:
                self._terminal = Terminal(self._input.type, peer)
            return ends
        for fd, wanted in ((STDOUT, request.stdout), (STDERR, request.stderr)):
            if wanted:
                ends[fd] = ChannelEnd(peer, fd, self._closed)
                self._open_ends += 1
            else:
                ends[fd] = Null()
        return ends

    def _closed(self) -> None:
        self._open_ends -= 1
        self._settle()

    def _settle(self) -> None:
        """The command is over once its process and all that write to the client have ended."""
        process = self._process
        if process is not None and process.ended.ready and not self._open_ends:
            if self._input is not None:
                self._input.close()
            self._peer.end(ERROR, exit_status(self._words, process.ended.code))

    def poll(self) -> None:
        """See `Session`."""
        if self._failed:
            self._peer.end(ERROR, self._failed.encode())

    def stop(self) -> None:
        """See `Session`."""
        if self._input is not None:
            self._input.close()


class Attachment(Interactive):
    """A client that sees what a container writes from now on, and writes to its input."""

    def __init__(self, agent: NodeAgent, request: StreamRequest, peer: Peer) -> None:
        super().__init__(peer)
        self._tty = request.tty
        _, container = find_running(agent, request)
        self._running = running = agent.machine.running_program(container)
        self._sender: LineSender | None = None
        if running is None:
            options = LogOptions(follow=True, tail=0)
            reader = LogReader(container, agent.machine, options, clock_of(agent))
            self._sender = LineSender(agent, reader, peer, single=request.tty)
            return
        self._wanted = {"stdout": request.stdout, "stderr": request.stderr}
        running.seen.append(self._see)
        running.over.append(self._end)
        if request.stdin and running.stdin is not None:
            self._input = Input(
                _unnoticed if request.tty else peer.acknowledge, running.stdin, closes=running.launch.once
            )
            if request.tty:
                self._terminal = Terminal(self._input.type, peer)
                self._terminal.process = running.first

    def _see(self, stream: str, data: bytes) -> None:
        if self._wanted[stream]:
            shown = data.replace(b"\n", b"\r\n") if self._tty else data
            self._peer.send(STDERR if stream == "stderr" else STDOUT, shown)

    def _end(self) -> None:
        self._leave()
        self._peer.end(ERROR, SUCCESS)

    def _leave(self) -> None:
        if self._running is not None and self._see in self._running.seen:
            self._running.seen.remove(self._see)
            self._running.over.remove(self._end)

    def poll(self) -> None:
        """See `Session`."""
        if self._sender is not None and self._sender.send():
            self._peer.end(ERROR, SUCCESS)

    def stop(self) -> None:
        """See `Session`."""
        self._leave()
        if self._sender is not None:
            self._sender.stop()
        if self._input is not None:
            self._input.close()
