"""What a node agent that runs alone gives to the programs of its pods."""

from __future__ import annotations

import pytest

from sim.api.scheme.scheme import Scheme
from sim.api.types import Transport
from sim.app.daemons.agent.composition import AgentClients
from sim.ident import NAMES
from sim.kernel import Context, Kernel
from sim.wire.rest.transport import RestClients
from tests.unit.sim.kernel.test_kernel import running

NAMES_ = NAMES["kubernetes"]
POD = {"metadata": {"namespace": "shop", "name": "web-0", "uid": "u"}, "spec": {"serviceAccountName": "web"}}


async def test_a_program_never_sends_with_the_credentials_of_the_agent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel, scheme, users = Kernel(), Scheme(NAMES_), list[str]()
    agent = RestClients(kernel, scheme, None, None, operation="agent")
    programs = RestClients(kernel, scheme, None, None, operation="programs")

    def refused(ctx: Context) -> Transport:
        raise AssertionError("a program got the transport of the agent")

    monkeypatch.setattr(agent, "transport", refused)
    clients = AgentClients(scheme, NAMES_, agent, programs)
    async with running(kernel) as supervisor:

        def main(ctx: Context) -> None:
            users.append(clients.account(ctx, POD).user.name)

        supervisor.add("n1", main)
        await kernel.run_until(60_000_000)
    assert users == ["system:serviceaccount:shop:web"]
