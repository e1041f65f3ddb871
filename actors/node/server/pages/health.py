"""/healthz of an agent.  Pure.

Mirrors  apiserver v1.25 pkg/server/healthz/healthz.go; kubernetes pkg/kubelet/server/server.go:
         InstallDefaultHandlers, syncLoopHealthCheck; cmd/kubelet/app/server.go, for the port of
         health alone.
"""

from __future__ import annotations

from actors.node.agent import NodeAgent
from actors.node.server.exchange import (
    NO_ROUTE,
    NOT_FOUND,
    AgentRequest,
    AgentResponse,
    Port,
    error,
    text,
)
from sim.units import MINUTE, go_quote

SLOW_US = 5 * MINUTE
LATE = "sync Loop took longer than expected"


def health(agent: NodeAgent, request: AgentRequest, rest: str) -> AgentResponse:
    """The answer.  rest: the path behind /healthz"""
    checks = ["ping"] if request.port is Port.HEALTHZ else ["ping", "log", "syncloop"]
    name = rest.strip("/")
    if name:
        if name not in checks or rest != f"/{name}":
            return text(404, NOT_FOUND)
        problem = _problem(agent, name)
        return error(500, f"internal server error: {problem}") if problem else text(200, "ok")
    if rest:
        return text(404, NO_ROUTE if request.port is Port.MAIN else NOT_FOUND)
    return _all(agent, request, checks)


def _all(agent: NodeAgent, request: AgentRequest, checks: list[str]) -> AgentResponse:
    excluded = request.all("exclude")
    lines, failed = [], False
    for check in checks:
        if check in excluded:
            lines.append(f"[+]{check} excluded: ok")
        elif _problem(agent, check):
            failed = True
            lines.append(f"[-]{check} failed: reason withheld")
        else:
            lines.append(f"[+]{check} ok")
    unknown = [each for each in excluded if each not in checks]
    if unknown:
        lines.append(
            f"warn: some health checks cannot be excluded: no matches for {', '.join(map(go_quote, unknown))}"
        )
    if failed:
        return error(500, "\n".join([*lines, "healthz check failed"]))
    if any(key == "verbose" for key, _ in request.query):
        return text(200, "\n".join([*lines, "healthz check passed\n"]))
    return text(200, "ok")


def _problem(agent: NodeAgent, check: str) -> str:
    """Why a check fails, "" if it does not."""
    if check != "syncloop":
        return ""
    since_us = agent.loop.asleep_since_us
    slow_us = max(SLOW_US, 2 * agent.options.sync_frequency_us)
    return LATE if since_us is not None and agent.now_us > since_us + slow_us else ""
