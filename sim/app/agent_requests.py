"""Requests of an API server to the servers of nodes' agents, over the simulated network.

Turns a request into its answer, after the delay of the link, or into the error of the dialer; an
answer that is a stream is opened by `sim.app.agent_streams`.

Holds: an answer, or the error, is given once; so is a request to an agent that ends.

Mirrors  kubernetes v1.25 pkg/kubelet/client/kubelet_client.go; apimachinery v1.25 pkg/util/proxy;
         golang net/dial.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from actors.node.node import Node
from sim.api.types import UserInfo
from sim.app.agent_streams import DIAL_US
from sim.ident import Names
from sim.kernel import Context
from sim.kernel.connection import LOST_US, Connection
from sim.options.node.agent import NodeAgentOptions

if TYPE_CHECKING:  # only a run with such requests needs it
    from actors.node.server.exchange import AgentRequest, AgentResponse

    Answered = Callable[[AgentResponse | str], None]


def server_identity(names: Names, options: NodeAgentOptions) -> UserInfo | None:
    """The user as which an API server connects to an agent: kubeadm's client certificate, if the
    agent knows the authority that has signed it.
    """
    if not options.client_ca_file:
        return None
    return UserInfo(names.component("apiserver-") + f"{names.node_agent}-client", (names.group_masters,))


class AgentExchange:
    """One request.

    _answered: takes the answer, or why there is no connection; None once it has been called
    """

    def __init__(
        self, ctx: Context, node: Node, request: AgentRequest, address: str, answered: Answered
    ) -> None:
        """ctx: of the API server; address: of the agent"""
        self._kernel, self._node = ctx.kernel, node
        self._request, self._address = request, address
        self._answered: Answered | None = answered
        hosts = ctx.name, node.name
        self._link = Connection(self._kernel, *hosts, self._at_agent, self._at_server, self._lost)
        self._link.up.send(request)
        self._kernel.timer_at(self._kernel.now_us + DIAL_US, self._time_out)
        self._reached = False

    def stop(self) -> None:
        """The client does not wait for the answer any more."""
        self._answered = None
        self._link.close()

    def _answer(self, answer: AgentResponse | str) -> None:
        answered, self._answered = self._answered, None
        self._link.close()
        if answered is not None:
            answered(answer)

    def _time_out(self, _: Any) -> None:
        if not self._reached:
            self._answer(f"dial tcp {self._address}: i/o timeout")

    def _lost(self) -> None:
        self._answer("EOF" if self._reached else f"dial tcp {self._address}: connect: no route to host")

    def _at_server(self, answer: Any) -> None:
        self._answer(answer)

    def _at_agent(self, request: AgentRequest) -> None:
        self._reached = True
        agent = self._node.machine.agent
        if agent is not None:
            agent.ctx.run(self._handle, agent)  # a process that hangs reads later
        elif self._node.machine.powered:
            self._reached = False
            self._link.down.send(f"dial tcp {self._address}: connect: connection refused")

    def _handle(self, agent: Any) -> None:
        from actors.node.server.server import server_of

        server_of(agent).handle(self._request, self._link.down.send, self._reset)

    def _reset(self) -> None:
        """The agent's process has ended: the client notices it, unless the machine is off."""
        if not self._link.closed:
            self._kernel.timer_at(self._kernel.now_us, self._tell_reset)

    def _tell_reset(self, _: Any) -> None:
        if self._node.machine.powered:
            self._link.down.send("EOF")
        else:
            self._kernel.timer_at(self._kernel.now_us + LOST_US, lambda _: self._link.lose())
