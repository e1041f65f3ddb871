"""A steered cluster behind its HTTP front, for tests of the control API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import trio

from sim.api.types import UserInfo
from sim.app.cluster import Cluster
from sim.app.control.session import Control
from sim.app.possible import expectations_of
from sim.app.serving.data_dir import new_keys
from sim.app.serving.front import Own, make_entrance, make_front
from sim.app.serving.identities import Files
from sim.app.serving.journal import Session
from sim.app.steering.assembly import make_steering
from sim.app.steering.routes import Keep
from sim.app.timetable import begin, header_of
from sim.ident import NAMES
from sim.kernel import Trace
from sim.wire.http.app import Application
from sim.wire.http.fronts.server import serve
from tests.actor.test_http import signing_key

N = NAMES["kubernetes"]
USERS = {
    "root": UserInfo("admin", (N.group_masters,)),
    "sees": UserInfo("vera", (N.group_authenticated,)),
    "none": UserInfo("noel", (N.group_authenticated,)),
    "runs": UserInfo("olga", (N.group_authenticated,)),
}
BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "viewers"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "orrery-viewer"},
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "vera"}],
}


class Steered(NamedTuple):
    """A steered cluster, its clients by token, and its page's stage."""

    cluster: Cluster
    control: Control
    clients: dict[str, httpx.AsyncClient]
    session: Session
    code: str

    async def ask(self, method: str, path: str, body: Any = None, *, token: str = "root") -> httpx.Response:
        """The answer to a request of the control API."""
        content = body if isinstance(body, bytes) else None
        given = None if content is not None else body
        return await self.clients[token].request(
            method, f"/orrery/v1{path}", json=given, content=content, timeout=60
        )


@asynccontextmanager
async def closed(trace: Trace) -> AsyncIterator[None]:
    """Close a trace at the end."""
    try:
        yield
    finally:
        trace.close()


@asynccontextmanager
async def steered(
    folder: Path, nodes: int = 3, scenario: str = "", pace: float = inf, keep: Keep | None = None
) -> AsyncIterator[Steered]:
    """A cluster that rests at the beginning of its time."""
    session = Session(scenario, (), "kubernetes", nodes, None, None)
    plan = session.plan()
    file = folder / "served.trace"
    trace = Trace(file, header_of(plan, plan.seed))
    async with (
        closed(trace),
        Cluster(plan.cluster, seed=plan.seed, trace=trace) as cluster,
        trio.open_nursery() as nursery,
    ):
        control = Control(cluster, plan, expectations_of(plan, alone=False))
        steering = make_steering(control, session.document, keep)
        own = Own(steering, make_entrance(cluster), new_keys(cluster.names))
        await cluster.run_until(0)
        files = Files.read(cluster.options.authentication, signing_key())
        cluster.kernel.gate.post("root-ca", "a certificate", lambda _: None)
        front = make_front(cluster, USERS, "127.0.0.1", files, own=own)
        begin(cluster, plan)
        cluster.apply(BINDING)
        cluster.kernel.set_rate(pace)
        port = await nursery.start(
            partial(serve, direct=True), Application(front.answer), "127.0.0.1", 0, None, None
        )
        url = f"http://127.0.0.1:{port}"
        async with trio.open_nursery() as closing:
            clients = {
                token: httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {token}"})
                for token in USERS
            }
            await cluster.run_until(0)
            yield Steered(cluster, control, clients, session, steering.page.code())
            for client in clients.values():
                closing.start_soon(client.aclose)
        nursery.cancel_scope.cancel()
