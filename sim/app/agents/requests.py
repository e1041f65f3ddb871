"""Connections to the servers of nodes' agents, each for one request.

The first bytes of the client are the packed request; the first that come are the packed head of the
answer.  Then comes its body, or the messages of the stream that the answer has opened.

Holds: a request has one answer, or its connection ends; a stream ends as those of
`sim.app.agents.streams`.

Mirrors  kubernetes v1.25 pkg/kubelet/client/kubelet_client.go; apimachinery v1.25 pkg/util/proxy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import trio

from sim.api import status
from sim.api.streams import BODY, HEAD, StreamRequest, packed_head, unpacked_request
from sim.api.types import Reply, UserInfo
from sim.app.agents.streams import AgentStream

if TYPE_CHECKING:  # only a run with such requests needs it
    from actors.node.node import Node
    from actors.node.server.exchange import AgentResponse, Port
    from sim.ident import Names
    from sim.kernel import Context
    from sim.options.node.agent import NodeAgentOptions
    from sim.wire.http.gateway import Gateway
    from sim.wire.http.streams import OutsideStream


def server_identity(names: Names, options: NodeAgentOptions) -> UserInfo | None:
    """The user as which an API server connects to an agent: kubeadm's client certificate, if the
    agent knows the authority that has signed it.
    """
    if not options.client_ca_file:
        return None
    return UserInfo(names.component("apiserver-") + f"{names.node_agent}-client", (names.group_masters,))


class AgentConnection(AgentStream):
    """One connection."""

    def __init__(
        self,
        ctx: Context,
        node: Node,
        request: StreamRequest,
        address: str,
        left: Callable[[AgentStream], None],
        port: Port,
        user: UserInfo | None = None,
    ) -> None:
        """ctx: of the client's process; port: of the agent

        user: of the client's certificate; None takes that of the request
        """
        super().__init__(ctx, node, request, address, left, upgrades=request.upgrade)
        self._port, self._user = port, user

    def _failure(self, why: str) -> Reply:
        if self.request.upgrade:
            return super()._failure(why)
        return Reply(503, body=status.service_unavailable(f"error trying to reach service: {why}"))

    def _at_agent(self, message: Any) -> None:
        if self._node.machine.agent is None and message[0] == HEAD:
            self._reset()  # the process has ended since the connection was made
        else:
            super()._at_agent(message)

    def _check(self) -> None:
        """Access is checked when the request has come."""
        self._link.down.send(("opened", 0))

    def _do(self, message: Any) -> None:
        if message[0] != HEAD or self._agent_side is not None:
            super()._do(message)
            return
        from actors.node.server.exchange import AgentRequest
        from actors.node.server.server import server_of

        fields = unpacked_request(message[1])
        certificate = self._user or fields.pop("certificate", None)
        request = AgentRequest(**{**fields, "port": self._port, "certificate": certificate})
        self._link.down.send(("took", len(message[1])))
        server_of(self._node.machine.agent).handle(request, self._respond, self._reset)

    def _respond(self, response: AgentResponse) -> None:
        if self._link.closed:
            return
        if response.stream is None:
            self._say(response.code, response.media, response.location, response.body)
            return
        from actors.node.server.exchange import PLAIN
        from actors.node.server.sessions import sessions_of

        def send(message: Any) -> None:
            what, value = message
            if what == "opened":
                self._link.down.send((HEAD, packed_head(response.code, PLAIN, "", response.stream)))
            elif what == "refused":
                self._say(value[0], PLAIN, "", value[1].encode())
            else:
                self._link.down.send(message)

        sessions = sessions_of(self._node.machine.agent)
        begun = sessions.begin(response.stream, send, self._reset)
        if begun is not None:
            self._agent_side = sessions, *begun

    def _say(self, code: int, media: str, location: str, body: bytes) -> None:
        self._link.down.send((HEAD, packed_head(code, media, location)))
        if body:
            self._link.down.send((BODY, body))
        self._link.down.send(("end", 0))


class AgentDoors:
    """The way in for clients that connect to agents directly, past the API servers."""

    def __init__(self, gateway: Gateway, nodes: Mapping[str, Node]) -> None:
        self._gateway, self._nodes = gateway, nodes
        gateway.kernel.gate.handle("agent-connect", self._connect)

    async def open(self, node: str, port: Port) -> OutsideStream | str:
        """A connection to a server of a node's agent, or why there is none."""
        from sim.wire.http.streams import stop_opened

        box: list[tuple[Reply, None]] = []
        connected, gone = trio.Event(), False

        def done(result: tuple[Reply, None]) -> None:
            if gone:
                stop_opened(result)
            box.append(result)
            connected.set()

        self._gateway.kernel.gate.post("agent-connect", [node, port.value], done)
        try:
            await connected.wait()
        finally:
            gone = not box
        reply = box[0][0]
        return reply.stream if reply.ok else str(reply.body)

    def _connect(self, payload: list[str], done: Callable[[Any], None]) -> None:
        from actors.node.server.exchange import Port

        name, port = payload
        node = self._nodes.get(name)
        agent = None if node is None else node.machine.agent
        if node is None or agent is None:
            done((Reply(503, body=f"the agent of {name} does not run"), None))
            return
        request, place = StreamRequest("agent", "", name), f"{name}:{port}"
        # The client is on the machine of the agent: no link of the network is between the two.
        stream = AgentConnection(agent.ctx, node, request, place, lambda _: None, Port(port))
        self._gateway.open(stream, done)
