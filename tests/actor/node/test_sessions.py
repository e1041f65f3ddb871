"""Streams of clients to an agent that do not behave: too many at once, and without a sign of life."""

from __future__ import annotations

from typing import Any

import pytest

from actors.node.runtime.interpreter import Interpreter
from actors.node.server.sessions import SESSIONS_MAX, sessions_of
from sim.api.streams import StreamRequest
from sim.options.node.agent import parse_node_agent
from sim.units import SECOND
from tests.actor.node.fake import one_node
from tests.actor.node.test_server_pages import SPEC, ask
from tests.actor.test_http_exec import echo

PROGRAMS = Interpreter({"echo": echo})
EXEC = StreamRequest("exec", "default", "p", "c", ("echo",), stdin=True, stdout=True)
FORWARD = StreamRequest("portforward", "default", "p", "", ports=(80,))


async def test_a_thousand_streams_are_bounded_and_others_are_answered() -> None:
    async with one_node(SPEC) as (kernel, api, node):
        node.machine.interpreter = PROGRAMS
        api.bind("p")
        await kernel.run_until(30 * SECOND)
        sessions, said = sessions_of(node.machine.agent), list[list[Any]]()
        held = []
        for number in range(1000):
            said.append([])
            request = EXEC if number % 2 else FORWARD
            held.append(sessions.begin(request, said[-1].append, lambda: None))
        await kernel.run_until(40 * SECOND)
        opened = [each for each in held if each is not None]
        assert len(opened) == len(sessions.peers) == SESSIONS_MAX
        assert [each[0][0] for each in said] == ["opened"] * SESSIONS_MAX + ["refused"] * (
            1000 - SESSIONS_MAX
        )
        assert said[-1] == [("refused", (429, "the node's agent has too many streams"))]
        assert ask(node, "/healthz").code == 200
        assert ask(node, "/containerLogs/default/p/c").code == 200
        [programs] = node.machine.programs.values()
        assert len(programs.table.processes) >= SESSIONS_MAX // 2
        for peer, _ in opened:
            sessions.leave(peer)
        await kernel.run_until(50 * SECOND)
        assert not sessions.peers
        assert (
            len(programs.table.processes) == 1
        )  # the container's own; the others met the end of their input
        assert sessions.begin(EXEC, [].append, lambda: None) is not None


@pytest.mark.parametrize("request_", [EXEC, FORWARD])
async def test_a_client_without_a_sign_of_life_is_left_after_the_idle_time(request_: StreamRequest) -> None:
    options = parse_node_agent({"streaming-connection-idle-timeout": "2m"})
    async with one_node(SPEC, options) as (kernel, api, node):
        node.machine.interpreter = PROGRAMS
        api.bind("p")
        await kernel.run_until(30 * SECOND)
        sessions = sessions_of(node.machine.agent)
        assert sessions.begin(request_, lambda message: None, lambda: None) is not None
        await kernel.run_until(140 * SECOND)
        assert len(sessions.peers) == 1
        await kernel.run_until(160 * SECOND)
        assert not sessions.peers
        assert sum(len(each.table.processes) for each in node.machine.programs.values()) <= 1
