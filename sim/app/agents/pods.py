"""What API servers ask of the agents of nodes: logs of pods, and streams to containers.

Turns a request for a container's log into its text, into a stream or into upstream's error.

Mirrors  kubernetes v1.25 pkg/registry/core/pod/rest/log.go; apiserver
         pkg/registry/generic/rest/response_checker.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from sim.api import status
from sim.api.streams import StreamRequest
from sim.api.types import Obj, Reply
from sim.api.verbs.log import log_options
from sim.app.agents.requests import server_identity
from sim.app.agents.streams import AgentStream

if TYPE_CHECKING:
    from actors.node.node import Node
    from actors.node.server.exchange import AgentRequest
    from sim.api.store import Item
    from sim.api.verbs.call import Call
    from sim.ident import Names
    from sim.kernel import Context
    from sim.options.node.agent import NodeAgentOptions

DISABLED = "Debug endpoints are disabled.\n"


class AgentCalls:
    """The calls of one API server.

    agents: options of the nodes' agents
    server: the API server's process
    """

    def __init__(
        self,
        nodes: Mapping[str, Node],
        agents: Mapping[str, NodeAgentOptions],
        server: Callable[[], Context],
        names: Names,
    ) -> None:
        self._nodes, self._agents, self._server = nodes, agents, server
        self._names = names
        self._streams: dict[AgentStream, None] = {}
        self._hooked: Context | None = None

    def log(self, call: Call, item: Item, container: str, address: str) -> Reply | None:
        """The log of one container of a scheduled pod; None if no agent listens.

        address: of the agent
        """
        metadata, spec = item.obj["metadata"], item.obj["spec"]
        node = self._nodes.get(spec["nodeName"])
        if node is None or not agent_listens(self._nodes, self._agents, node.name):
            return None
        if not self._agents[node.name].enable_debugging_handlers:
            return _refused(metadata["name"], status.method_not_allowed())
        from actors.node.server.logs import read_log

        options = log_options(call.options)
        names = metadata["namespace"], metadata["name"], container
        if not self._agents[node.name].lets_all_in:
            return self._open(node, StreamRequest("log", *names, log=options), address)
        code, text = read_log(node.machine.agent, *names, options)
        if code == 404:
            return _refused(metadata["name"], status.unknown_resource())
        if code != 200:
            return Reply(code, body=status.bad_request(text))
        if not options.follow:
            return Reply(200, body=text)
        return self._open(node, StreamRequest("log", *names, log=options), address)

    def stream(self, node: str, request: StreamRequest, address: str) -> Reply:
        """A stream to a container of a node with an agent that listens, or to the agent's server."""
        if request.kind == "agent":
            return self._connect(self._nodes[node], request, address)
        if not self._agents[node].enable_debugging_handlers:
            return Reply(405, body=DISABLED)
        return self._open(self._nodes[node], request, address)

    def _open(self, node: Node, request: StreamRequest, address: str) -> Reply:
        ctx, upgrades = self._context(), request.kind != "log"
        sent = self._sent(node.name, request)
        stream = AgentStream(ctx, node, request, address, self._left, upgrades=upgrades, sent=sent)
        self._streams[stream] = None
        return Reply(101 if upgrades else 200, body="", stream=stream)

    def _connect(self, node: Node, request: StreamRequest, address: str) -> Reply:
        """A connection to the server of an agent."""
        from actors.node.server.exchange import Port
        from sim.app.agents.requests import AgentConnection

        user = server_identity(self._names, self._agents[node.name])
        stream = AgentConnection(self._context(), node, request, address, self._left, Port.MAIN, user)
        self._streams[stream] = None
        return Reply(200, body="", stream=stream)

    def _context(self) -> Context:
        """The API server's process, at the end of which all streams end."""
        ctx = self._server()
        if ctx is not self._hooked:
            self._hooked = ctx
            ctx.on_stop(self._end)
        return ctx

    def _sent(self, node: str, request: StreamRequest) -> AgentRequest | None:
        """What the agent checks access by; None if it lets everyone in."""
        options = self._agents[node]
        if options.lets_all_in:
            return None
        from actors.node.server.exchange import AgentRequest

        path = {"log": "containerLogs", "portforward": "portForward"}.get(request.kind, request.kind)
        method = "GET" if request.kind == "log" else "POST"
        return AgentRequest(method, f"/{path}/", certificate=server_identity(self._names, options))

    def _left(self, stream: AgentStream) -> None:
        self._streams.pop(stream, None)

    def _end(self) -> None:
        """The API server's process ends."""
        for stream in tuple(self._streams):
            stream.stop()


def agent_listens(nodes: Mapping[str, Node], agents: Mapping[str, NodeAgentOptions], name: str) -> bool:
    """True if the agent of a node runs and serves its port, for which it may need a certificate."""
    node = nodes.get(name)
    if node is None or node.machine.agent is None or not agents[name].listens:
        return False
    return not agents[name].rotate_server_certificates or node.machine.certificates.serving is not None


def _refused(name: str, body: Obj) -> Reply:
    """Quirk: the node's message is not passed on, and the sentence lacks a verb."""
    message = f"{body['message']} ( pods/log {name})"
    return Reply(
        body["code"], body={**body, "message": message, "details": {"name": name, "kind": "pods/log"}}
    )
