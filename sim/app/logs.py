"""Logs of pods: which container's, from the node agent that runs it, and how much of them.

Turns a request for a pod's log into text or upstream's refusal.

Mirrors  kubernetes v1.25 pkg/registry/core/pod/strategy.go (LogLocation), pkg/registry/core/pod/rest/log.go.
Differs  `follow` ends with what there is; `timestamps`, `sinceSeconds` and `sinceTime` change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from actors.node.node import Node
from sim.machinery import status
from sim.machinery.api import Obj, Reply
from sim.machinery.store import Item
from sim.machinery.verbs_call import Call, bad_request, is_true

AGENT_PORT = 10250


def pod_log(nodes: Mapping[str, Node], call: Call, item: Item) -> Reply:
    """The log of one container of a pod that has a node.  Raises Refusal."""
    pod, options = item.obj, call.options
    metadata, spec = pod["metadata"], pod["spec"]
    container = _container(pod, options.get("container", ""))
    node = nodes.get(spec["nodeName"])
    if node is None:  # Quirk: the missing node is told as a missing pod
        return Reply(404, body=status.not_found(call.resource, spec["nodeName"]))
    agent = node.machine.agent
    if agent is None:
        host = (pod.get("status") or {}).get("hostIP", "")
        path = f"containerLogs/{metadata['namespace']}/{metadata['name']}/{container}"
        text = f'Get "https://{host}:{AGENT_PORT}/{path}": dial tcp {host}:{AGENT_PORT}: connect: connection refused'
        return Reply(500, body=status.plain_error(text))
    previous = is_true(options, "previous")
    code, text = agent.log(metadata["namespace"], metadata["name"], container, previous=previous)
    if code != 200:
        return Reply(
            code, body=status.bad_request(text) if code == 400 else status.status(code, "NotFound", text)
        )
    return Reply(200, body=_cut(text, _number(options, "tailLines"), _number(options, "limitBytes")))


def _container(pod: Obj, name: str) -> str:
    spec = pod["spec"]
    ordinary = [container["name"] for container in spec["containers"]]
    known = [*(container["name"] for container in spec.get("initContainers") or ()), *ordinary]
    if name and name not in known:
        raise bad_request(f"container {name} is not valid for pod {pod['metadata']['name']}")
    if not name and len(ordinary) > 1:
        listed = " ".join(ordinary)
        text = (
            f"a container name must be specified for pod {pod['metadata']['name']}, choose one of: [{listed}]"
        )
        raise bad_request(text)
    return name or ordinary[0]


def _number(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdecimal():
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)


def _cut(text: str, tail: int | None, limit: int | None) -> str:
    lines = text.splitlines(keepends=True)
    shown = "".join(lines[len(lines) - tail :] if tail is not None and tail < len(lines) else lines)
    return shown if limit is None else shown.encode()[:limit].decode("utf-8", "ignore")
