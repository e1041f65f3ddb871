"""Logs of pods, from the node agents that run them, with limits on their length.

Turns a request for a container's log into its text or upstream's error.

Mirrors  kubernetes v1.25 pkg/registry/core/pod/rest/log.go; apiserver
         pkg/registry/generic/rest/response_checker.go.
Differs  `follow` ends at the end of the present log.
"""

from __future__ import annotations

from collections.abc import Mapping

from actors.node.node import Node
from sim.api import status
from sim.api.store import Item
from sim.api.types import Obj, Reply
from sim.api.verbs.call import Call, is_true
from sim.api.verbs.log import number_of
from sim.options.node.agent import NodeAgentOptions


def pod_log(
    nodes: Mapping[str, Node],
    agents: Mapping[str, NodeAgentOptions],
    call: Call,
    item: Item,
    container: str,
) -> Reply | None:
    """The log of one container of a scheduled pod; None if no agent listens.

    agents: options of the nodes' agents
    """
    pod, options = item.obj, call.options
    metadata, spec = pod["metadata"], pod["spec"]
    node = nodes.get(spec["nodeName"])
    if node is None:
        return None
    agent, options_of_agent = node.machine.agent, agents[node.name]
    if agent is None or not agent_listens(nodes, agents, node.name):
        return None
    if not options_of_agent.enable_debugging_handlers:
        return _refused(metadata["name"], status.method_not_allowed())
    previous = is_true(options, "previous")
    code, text = agent.log(metadata["namespace"], metadata["name"], container, previous=previous)
    if code == 404:
        return _refused(metadata["name"], status.unknown_resource())
    if code != 200:
        return Reply(code, body=status.bad_request(text))
    return Reply(200, body=_cut(text, number_of(options, "tailLines"), number_of(options, "limitBytes")))


def agent_listens(nodes: Mapping[str, Node], agents: Mapping[str, NodeAgentOptions], name: str) -> bool:
    """True if the agent of a node runs and serves its port."""
    node = nodes.get(name)
    return node is not None and node.machine.agent is not None and agents[name].enable_server


def _refused(name: str, body: Obj) -> Reply:
    """Quirk: the node's message is not passed on, and the sentence lacks a verb."""
    message = f"{body['message']} ( pods/log {name})"
    return Reply(
        body["code"], body={**body, "message": message, "details": {"name": name, "kind": "pods/log"}}
    )


def _cut(text: str, tail: int | None, limit: int | None) -> str:
    lines = text.splitlines(keepends=True)
    shown = "".join(lines[len(lines) - tail :] if tail is not None and tail < len(lines) else lines)
    return shown if limit is None else shown.encode()[:limit].decode("utf-8", "ignore")
