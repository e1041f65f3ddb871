"""A run with the lease fast path and one without give the same objects and the same history."""

from __future__ import annotations

from random import Random
from typing import Any

import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.apiserver.server import ApiServer
from sim.api.types import Reply, Request, UserInfo
from sim.units import format_micro_time, parse_time
from tests.actor.apiserver.cluster import Plane, lease, offer, plane, request

NODE = UserInfo("system:node:n", ("system:nodes",))
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["renew", "renew", "renew", "again", "other", "delete", "crash", "pause"]),
        st.integers(0, 3_000_000),
    ),
    max_size=25,
)


class Renewer:
    """A lease's renewal: by the fast path, by updates served at once, or by ordinary updates; the
    latter if the first ones do not apply.
    """

    def __init__(self, plane: Plane, way: str) -> None:
        self.plane = plane
        self.way = way
        self.known: dict[str, Any] | None = None
        self.lease_path: Any = None
        self.fast = 0

    def request(self, obj: dict[str, Any]) -> Request:
        return request("update", "leases", "default", "n", body=obj, user=NODE, manager="node")

    async def renew(self, text: str) -> None:
        if self.known is None:
            body = lease("n", holderIdentity="n", renewTime=text)
            made = await self.plane.ask("create", "leases", body=body, user=NODE, manager="node")
            self.known = made.obj if made.ok else (await self.plane.ask("get", "leases", name="n")).obj
            return
        new = {**self.known, "spec": {**self.known["spec"], "renewTime": text}}
        server = self.plane.server
        if self.way == "lease_path" and server.running:
            if self.lease_path is None or self.lease_path.server is not server.ctx:
                self.lease_path = _Bound(server, self.request(new))
            item = self.lease_path.lease_path.write(parse_time(text))
            if item is not None:
                self.fast += 1
                self.known = item.obj
                await self.plane.run(20_000)
                return
        reply = await self._update(server, self.request(new))
        if reply.ok:
            self.known = reply.obj
        elif reply.reason in ("Conflict", "NotFound"):
            read = await self.plane.ask("get", "leases", name="n")
            self.known = read.obj if read.ok else None

    async def _update(self, server: ApiServer, request: Request) -> Reply:
        served = server.serve(request) if self.way == "update" else None
        replies: list[Reply] = [served[0]] if served is not None else self.plane.send(request)
        await self.plane.run(20_000)
        return replies[0]


class _Bound:
    def __init__(self, server: ApiServer, request: Request) -> None:
        self.server = server.ctx
        self.lease_path = offer(server, request)


async def history(steps: list[tuple[str, int]], way: str) -> tuple[list[Any], int]:
    async with plane() as p:
        renewer = Renewer(p, way)
        last = ""
        for what, wait_us in steps:
            await p.kernel.run_until(-(-(p.kernel.now_us + wait_us) // 100_000) * 100_000)
            if what == "renew":
                last = format_micro_time(p.kernel.epoch_us + p.kernel.now_us)
                await renewer.renew(last)
            elif what == "again" and last:
                await renewer.renew(last)
            elif what == "other":
                body = {"metadata": {"labels": {"x": str(wait_us)}}}
                kind = "application/merge-patch+json"
                await p.ask("patch", "leases", name="n", body=body, content_type=kind, manager="other")
            elif what == "delete":
                await p.ask("delete", "leases", name="n")
            elif what == "crash":
                p.supervisor["apiserver-0"].crash()
                p.supervisor["apiserver-0"].start()
            elif what == "pause":
                p.supervisor["storage"].slow(1000)
                await p.run(50_000)
                p.supervisor["storage"].resume()
        changes = p.storage.store.events(0, "")
        assert isinstance(changes, list)
        seen = [
            (c.rev, c.item.key, c.deleted, {**c.item.obj}, c.item.managed, c.at_us, c.cause) for c in changes
        ]
        return seen, renewer.fast


def run(steps: list[tuple[str, int]], way: str) -> tuple[list[Any], int]:
    return trio.run(history, steps, way)


@settings(max_examples=20, deadline=None)
@given(STEPS)
def test_lease_fast_path_has_no_observable_effect(steps: list[tuple[str, int]]) -> None:
    plain, _ = run(steps, "plain")
    assert run(steps, "lease_path")[0] == plain
    assert run(steps, "update")[0] == plain


def test_all_steady_renewals_take_the_fast_path() -> None:
    random = Random(1)
    steps = [("renew", random.randrange(1_000_000, 3_000_000)) for _ in range(20)]
    _, fast = run(steps, "lease_path")
    # The first write creates, and the second one is the first that the fast path's server serves.
    assert fast == 18
