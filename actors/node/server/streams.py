"""Requests of an agent's server for a container: logs, commands, and streams to be opened.

Turns a path and a query into a `StreamRequest`, a text, or a refusal.

Mirrors  kubernetes v1.25 pkg/kubelet/server/server.go: getContainerLogs, getExec, getAttach,
         getPortForward, getRun, proxyStream; pkg/kubelet/cri/streaming/remotecommand/httpstream.go:
         NewOptions; portforward/websocket.go: NewV4Options; pkg/kubelet/cri/remote:
         ExecSync; containerd pkg/cri/server/container_execsync.go (the bound of the output).
"""

from __future__ import annotations

from collections.abc import Callable

from actors.node.agent import NodeAgent
from actors.node.pods.worker import Worker
from actors.node.programs.ends import End, Null, Output
from actors.node.server.commands import NO_CHANNELS
from actors.node.server.exchange import (
    NO_ROUTE,
    WRONG_METHOD,
    AgentRequest,
    AgentResponse,
    Respond,
    error,
    text,
)
from actors.node.server.logs import clock_of, find_log, find_worker
from actors.node.server.pages.figures import spec_of
from actors.node.server.processes import CannotStart, start_process
from sim.api.refusals import Refusal
from sim.api.streams import StreamRequest
from sim.api.verbs.connect import port_problem
from sim.api.verbs.log import errors_of, log_options

NO_POD = text(404, "pod does not exist")
OUTPUT_MAX = 16 << 20
_SWITCHES = ("input", "output", "error", "tty")


def container_log(agent: NodeAgent, request: AgentRequest, parts: list[str]) -> AgentResponse:
    """What a log holds, or the stream that follows it."""
    given = dict(reversed(request.query))
    tail = given.pop("tail", "")
    if tail == "all":
        given.pop("tailLines", None)
    elif tail:
        given["tailLines"] = tail
    try:
        if errors_of(given):
            return text(422, '{"message": "Invalid request."}')
        options = log_options(given)
    except Refusal:
        return text(400, '{"message": "Unable to decode query."}')
    namespace, name, container = parts
    reader, code, problem = find_log(agent, namespace, name, container, options)
    if reader is None:
        return text(code, problem)
    if options.follow:
        return AgentResponse(200, stream=StreamRequest("log", namespace, name, container, log=options))
    return AgentResponse(200, b"".join(data for _, data in reader.read(clock_of(agent))))


def exec_request(agent: NodeAgent, request: AgentRequest, parts: list[str], respond: Respond) -> None:
    """GET or POST /exec."""
    respond(_command(agent, "exec", request, parts))


def attach_request(agent: NodeAgent, request: AgentRequest, parts: list[str], respond: Respond) -> None:
    """GET or POST /attach."""
    respond(_command(agent, "attach", request, parts))


def _command(agent: NodeAgent, kind: str, request: AgentRequest, parts: list[str]) -> AgentResponse:
    if len(parts) not in (3, 4):
        return text(404, NO_ROUTE)
    if request.method not in ("GET", "POST"):
        return text(405, WRONG_METHOD)
    stdin, stdout, stderr, tty = (request.first(name) == "1" for name in _SWITCHES)
    stderr = stderr and not tty
    if not (stdin or stdout or stderr):
        return text(400, NO_CHANNELS)
    worker = find_worker(agent, parts[0], parts[1])
    if worker is None:
        return NO_POD
    container = parts[-1]
    if not _runs(agent, worker, parts, container):
        return text(500, f'container not found ("{container}")')
    if kind == "attach":
        tty = bool(spec_of(worker.pod, container).get("tty"))
        stderr = stderr and not tty
    command = request.all("command") if kind == "exec" else ()
    stream = StreamRequest(
        kind, parts[0], parts[1], container, command, stdin=stdin, stdout=stdout, stderr=stderr, tty=tty
    )
    return _upgraded(request, stream)


def _runs(agent: NodeAgent, worker: Worker, parts: list[str], container: str) -> bool:
    """True if the pod with the wanted uid, if one is given, runs the container."""
    if len(parts) == 4 and parts[2] != worker.uid:
        return False
    found = None if worker.runtime is None else worker.runtime.newest(container)
    return found is not None and found.running(agent.now_us)


def forward_request(agent: NodeAgent, request: AgentRequest, parts: list[str], respond: Respond) -> None:
    """GET or POST /portForward."""
    respond(_forward(agent, request, parts))


def _forward(agent: NodeAgent, request: AgentRequest, parts: list[str]) -> AgentResponse:
    if len(parts) not in (2, 3):
        return text(404, NO_ROUTE)
    if request.method not in ("GET", "POST"):
        return text(405, WRONG_METHOD)
    given = request.first("port")
    if given and port_problem(given):
        return text(400, f"unable to parse {given!r} as a port: {port_problem(given)}")
    worker = find_worker(agent, parts[0], parts[1])
    if worker is None:
        return NO_POD
    if len(parts) == 3 and parts[2] != worker.uid:
        return text(404, "pod not found")
    ports = tuple(int(port) for port in given.split(",")) if given else ()
    return _upgraded(request, StreamRequest("portforward", parts[0], parts[1], ports=ports))


def _upgraded(request: AgentRequest, stream: StreamRequest) -> AgentResponse:
    """Quirk: the proxy in front of the runtime says 500 to a client that wants no other protocol."""
    return AgentResponse(101, stream=stream) if request.upgrade else error(500, "Upgrade request required")


def run_command(
    agent: NodeAgent, request: AgentRequest, parts: list[str], ran: Callable[[int, bytes], None]
) -> None:
    """Run a command; `ran` is called once with the code and the body of the answer."""
    worker = find_worker(agent, parts[0], parts[1])
    if worker is None:
        ran(404, b"pod does not exist")
        return
    container = parts[-1]
    found = None if worker.runtime is None else worker.runtime.newest(container)
    if found is None or not _runs(agent, worker, parts, container):
        ran(500, f'container not found ("{container}")'.encode())
        return
    words = tuple(request.first("cmd").split(" "))
    outputs = bytearray(), bytearray()
    ends: dict[int, End] = {0: Null(), 1: _taking(outputs[0]), 2: _taking(outputs[1])}
    try:
        process = start_process(worker, found, words, ends, terminal=False)
    except CannotStart as problem:
        ran(500, str(problem).encode())
        return

    def ended() -> None:
        if process.ended.code:
            said = f"command '{' '.join(words)}' exited with {process.ended.code}: ".encode()
            ran(500, said + bytes(outputs[1]))
        else:
            ran(200, bytes(outputs[0] + outputs[1]))

    process.ended.watch(lambda: agent.ctx.call_later_us(0, lambda _: ended()))


def _taking(into: bytearray) -> Output:
    return Output(lambda data: into.extend(data[: OUTPUT_MAX - len(into)]))
