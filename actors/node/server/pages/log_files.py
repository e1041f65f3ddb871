"""/logs/ of an agent: the files below /var/log of its machine.

The logs of containers are the files that there are: one for each instance that is kept, with the
lines that are kept of it, and a link by the names of pod, namespace and container.

Mirrors  kubernetes v1.25 pkg/kubelet/kubelet.go: ServeLogs; golang net/http fs.go (FileServer);
         pkg/kubelet/kuberuntime/{helpers,legacy}.go: the names of the files.
Differs  files that were rotated, and logs of the system, are not there; an answer does not carry
         the time of a file, and ranges are not served.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from urllib.parse import quote

from actors.node.agent import NodeAgent
from actors.node.runtime.containers import Container
from actors.node.runtime.logs import lines_of
from actors.node.server.exchange import NOT_FOUND, AgentResponse, text
from sim.units import format_micro_time

HTML = "text/html; charset=utf-8"


def log_file(agent: NodeAgent, path: str) -> AgentResponse:
    """The answer for a path below /logs."""
    parts = [part for part in path.split("/") if part]
    if any(part in (".", "..") for part in parts):
        return text(400, "invalid URL path\n")
    found: object = _tree(agent)
    for part in parts:
        found = found.get(part) if isinstance(found, Mapping) else None
    if isinstance(found, Container):
        if path.endswith("/"):
            return AgentResponse(301, location=f"../{quote(parts[-1])}")
        return AgentResponse(200, _content(agent, found))
    if not isinstance(found, Mapping):
        return text(404, NOT_FOUND)
    if not path.endswith("/"):
        return AgentResponse(301, location=f"{quote(parts[-1] if parts else 'logs')}/")
    names = [f"{name}/" if isinstance(held, Mapping) else name for name, held in sorted(found.items())]
    links = "".join(f'<a href="{quote(name)}">{escape(name)}</a>\n' for name in names)
    return AgentResponse(200, f"<pre>\n{links}</pre>\n".encode(), HTML)


def _tree(agent: NodeAgent) -> Mapping[str, object]:
    """The directories and files below /var/log."""
    pods: dict[str, dict[str, dict[str, Container]]] = {}
    links: dict[str, Container] = {}
    for uid, runtime in agent.machine.pods.items():
        namespace, _, name = runtime.key.partition("/")
        for one in runtime.containers:
            directory = pods.setdefault(f"{namespace}_{name}_{uid}", {}).setdefault(one.name, {})
            directory[f"{one.attempt}.log"] = one
            links[f"{name}_{namespace}_{one.name}-{one.ident.rpartition('/')[2]}.log"] = one
    return {"containers": links, "pods": pods}


def _content(agent: NodeAgent, container: Container) -> bytes:
    """The file of an instance, as the runtime writes it."""
    found = []
    for line in lines_of(agent.machine, container):
        at = format_micro_time(agent.ctx.said_us(line.at_us)).removesuffix("Z")
        whole = line.data.endswith(b"\n")
        head = f"{at}000Z {line.stream} {'F' if whole else 'P'} ".encode()
        found.append(head + line.data + (b"" if whole else b"\n"))
    return b"".join(found)
