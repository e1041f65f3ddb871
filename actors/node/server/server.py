"""The HTTP servers of an agent: a request becomes a page, a stream or a refusal.

Turns a path and a method into the handler that v1.25 has there, behind the check of access on the
main port.

Holds: an answer is given once, at once unless it needs a review or runs a command; nothing that is
not asked for is computed; at most `RUNS_MAX` commands run for /run at once.

Mirrors  kubernetes v1.25 pkg/kubelet/server/server.go; emicklei/go-restful (404, 405 of routes);
         golang net/http (404 of others); cmd/kubelet/app/server.go: the port of health.
Differs  gzip is not used; the gate ContainerCheckpoint is refused, so that /checkpoint is 404.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from actors.node.agent import NodeAgent
from actors.node.durations import REQUESTS
from actors.node.server import streams
from actors.node.server.access import Access
from actors.node.server.exchange import (
    JSON,
    NO_ROUTE,
    NOT_FOUND,
    WRONG_METHOD,
    AgentRequest,
    AgentResponse,
    Port,
    Respond,
    error,
    json,
    text,
)
from actors.node.server.pages import debug, log_files, metrics, pods
from actors.node.server.pages.figures import Figures
from actors.node.server.pages.health import health
from actors.node.server.pages.summary import summary_answer
from sim.options.node.configz import configuration_of

DISABLED = "Debug endpoints are disabled."
METHODS = ("OPTIONS", "GET", "HEAD", "POST", "PUT", "DELETE", "TRACE", "CONNECT")
LONG_RUNNING = ("exec", "attach", "portforward", "debug")
RUNS_MAX = 100
# Paths of the main server alone.
_DEBUGGING = (
    "run", "exec", "attach", "portForward", "containerLogs", "runningpods", "logs",
)  # fmt: skip
_PAGES = ("", "cadvisor", "probes", "resource")
Handler = Callable[[AgentRequest, list[str], Respond], None]


class AgentServer:
    """The servers of one incarnation.

    _requests, _open: how many requests there were, and are, by the labels of their metrics
    _resets: what to call for each request that has no answer yet, if the process ends
    """

    def __init__(self, agent: NodeAgent) -> None:
        self._agent, self._options = agent, agent.options
        self._figures, self.access = Figures(agent), Access(agent)
        self._requests: dict[tuple[str, ...], int] = {}
        self._open: dict[tuple[str, ...], int] = {}
        self._runs = 0
        self._resets: dict[Respond, Callable[[], None]] = {}
        agent.ctx.on_stop(self._stop)
        self._handlers: Mapping[str, Handler] = {
            "run": self._run,
            "exec": partial(streams.exec_request, agent),
            "attach": partial(streams.attach_request, agent),
            "portForward": partial(streams.forward_request, agent),
            "containerLogs": self._container_logs,
        }

    @property
    def figures(self) -> Figures:
        """What the node uses."""
        return self._figures

    @property
    def waiting(self) -> int:
        """How many requests have no answer yet."""
        return len(self._resets)

    def _stop(self) -> None:
        """The agent's process ends; its sockets are closed."""
        resets, self._resets = self._resets, {}
        for reset in resets.values():
            reset()

    def handle(self, request: AgentRequest, respond: Respond, reset: Callable[[], None]) -> None:
        """Answer a request of one of the ports.

        reset: called in place of `respond` if the agent's process ends before
        """
        if request.port is Port.HEALTHZ:
            respond(self._health_port(request))
            return
        labels = self._labels(request)
        self._requests[labels] = self._requests.get(labels, 0) + 1
        self._open[labels] = self._open.get(labels, 0) + 1
        began_us = self._agent.now_us

        def answered(response: AgentResponse) -> None:
            if self._resets.pop(answered, None) is not None:
                self._open[labels] -= 1
                self._agent.durations.add(self._agent.now_us - began_us, REQUESTS, *labels)
                respond(response)

        self._resets[answered] = reset
        if not self._is_known(request):
            answered(text(404, NOT_FOUND))  # of no handler, and so before the check of access
        elif request.port is Port.MAIN:
            self.access.check(request, lambda refusal: self._checked(request, refusal, answered))
        else:
            self._dispatch(request, answered)

    def _checked(self, request: AgentRequest, refusal: AgentResponse | None, respond: Respond) -> None:
        if refusal is not None:
            respond(refusal)
        else:
            self._dispatch(request, respond)

    def _health_port(self, request: AgentRequest) -> AgentResponse:
        if _root(request.path) != "healthz":
            return text(404, NOT_FOUND)
        return health(self._agent, request, request.path.removeprefix("/healthz"))

    def _labels(self, request: AgentRequest) -> tuple[str, ...]:
        root, rest = _root(request.path), request.path.split("/", 3)
        path = f"metrics/{rest[2]}" if root == "metrics" and len(rest) > 2 else root
        known = (*_DEBUGGING, "healthz", "pods", "stats", "metrics", "configz", "debug")
        if path not in known and path not in (f"metrics/{page}" for page in _PAGES):
            path = "other"
        method = request.method if request.method in METHODS else "other"
        kind = "readwrite" if request.port is Port.MAIN else "readonly"
        return "true" if path in LONG_RUNNING else "false", method, path, kind

    def _is_known(self, request: AgentRequest) -> bool:
        """True if there is a handler for the path's beginning."""
        path, root = request.path, _root(request.path)
        if root == "healthz":
            return path in ("/healthz", "/healthz/ping", "/healthz/log", "/healthz/syncloop")
        if root == "metrics":
            return path in ("/metrics", *(f"/metrics/{page}" for page in _PAGES if page))
        if root == "debug":
            flags = path == "/debug/flags/v" and self._debugs(request)
            return flags or path.startswith("/debug/pprof/")
        if root == "configz":
            return path == "/configz" and self._debugs(request)
        return root in ("pods", "stats", *_DEBUGGING)

    def _debugs(self, request: AgentRequest) -> bool:
        """True if the handlers for debugging are there."""
        return request.port is Port.MAIN and self._options.enable_debugging_handlers

    # --- handlers ---------------------------------------------------------------------------------

    def _dispatch(self, request: AgentRequest, respond: Respond) -> None:
        root, parts = _root(request.path), [part for part in request.path.split("/") if part][1:]
        if root in (*_DEBUGGING, "debug") and not self._debugs(request):
            respond(error(405, DISABLED))
        elif root in self._handlers:
            self._handlers[root](request, parts, respond)
        else:
            respond(self._page(request, root, parts))

    def _page(self, request: AgentRequest, root: str, parts: list[str]) -> AgentResponse:
        """The answer of a path that needs no time."""
        agent = self._agent
        if root == "healthz":
            return health(agent, request, request.path.removeprefix("/healthz"))
        if root == "metrics":
            return self._metrics(parts[0] if parts else "")
        if root == "configz":
            return json({f"{agent.names.node_agent}config": configuration_of(self._options, agent.names)})
        if root == "debug":
            return self._debug(request, parts)
        if root == "logs":
            if not self._options.enable_system_log_handler:
                return error(405, "logs endpoint is disabled.")
            return _read(request) or log_files.log_file(agent, request.path.removeprefix("/logs"))
        if root == "stats":
            if parts != ["summary"]:
                return text(404, NO_ROUTE)
            return _read(request, "GET", "POST") or summary_answer(agent, self._figures, request)
        if parts:
            return text(404, NO_ROUTE)
        return _read(request) or (pods.known_pods if root == "pods" else pods.running_pods)(agent)

    def _metrics(self, page: str) -> AgentResponse:
        agent, figures = self._agent, self._figures
        if page == "resource":
            return metrics.resource_metrics(agent, figures)
        if page == "cadvisor":
            return metrics.cadvisor_metrics(agent, figures)
        if page == "probes":
            return metrics.probe_metrics(agent)
        return metrics.main_metrics(agent, figures, self._requests, self._open)

    def _debug(self, request: AgentRequest, parts: list[str]) -> AgentResponse:
        if parts[0] == "flags":
            if not self._options.enable_debug_flags_handler:
                return error(405, "flags endpoint is disabled.")
            return debug.set_level(request, self._agent.log)
        if not self._options.enable_profiling_handler:
            return error(405, "profiling endpoint is disabled.")
        return _read(request) or debug.profile("/".join(parts[1:]), self._agent.names.node_agent)

    def _container_logs(self, request: AgentRequest, parts: list[str], respond: Respond) -> None:
        if len(parts) != 3:
            respond(text(404, NO_ROUTE))
        else:
            respond(_read(request) or streams.container_log(self._agent, request, parts))

    def _run(self, request: AgentRequest, parts: list[str], respond: Respond) -> None:
        """POST /run: the output of a command as the body."""
        if len(parts) not in (3, 4):
            respond(text(404, NO_ROUTE))
            return
        if refusal := _read(request, "POST"):
            respond(refusal)
            return
        if self._runs >= RUNS_MAX:
            respond(text(429, "too many commands run"))
            return
        self._runs += 1

        def ran(code: int, output: bytes) -> None:
            self._runs -= 1
            respond(
                AgentResponse(code, output, JSON)
                if code == 200
                else text(code, output.decode("utf-8", "replace"))
            )

        streams.run_command(self._agent, request, parts, ran)


def _root(path: str) -> str:
    return path.split("/", 2)[1] if path.startswith("/") else ""


def _read(request: AgentRequest, *methods: str) -> AgentResponse | None:
    """The refusal of another method than these, of GET without any."""
    return None if request.method in (methods or ("GET",)) else text(405, WRONG_METHOD)


def server_of(agent: NodeAgent) -> AgentServer:
    """The servers of an agent, made when one is asked for the first time."""
    if agent.server is None:
        agent.server = AgentServer(agent)
    server = agent.server
    assert isinstance(server, AgentServer)
    return server
