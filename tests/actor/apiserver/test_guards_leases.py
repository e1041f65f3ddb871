"""Each clause of the guard of the lease fast path has a test here that fails without it (see
`test_guards`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio

from actors.apiserver.fast.lease_updates import RENEWAL
from sim.api.store import Item, Managed
from sim.api.types import Request, UserInfo
from tests.actor.apiserver.cluster import ADMIN, lease, offer, paths_of, plane, request
from tests.actor.apiserver.test_guards import MERGE, NODE, OPTIONS, Server, masters_only, renewed

OWNER_MEMBERS = ("manager", "operation", "api_version", "time_s", "fields", "subresource")
WHERE = ("leases", "default", "n")


class Leases(Server):
    """A replica with one lease that a node agent renews."""

    def create(self) -> None:
        """Create the lease and renew it three times."""
        body = lease("n", holderIdentity="n", renewTime="2026-01-01T00:00:00.000000Z")
        offer(self.plane.server, self.renewal())
        self.ask(request("create", "leases", "default", body=body, user=NODE, manager="node"))
        for second in (1, 2, 3):
            self.renew(second)

    @staticmethod
    def renewal(**more: Any) -> Request:
        """The request of a renewal, without its body."""
        return replace_request(request("update", *WHERE, user=NODE, manager="node"), **more)

    def renew(self, second: int) -> None:
        """Renew the lease as the node agent does."""
        item = self.plane.storage.store.get(self.plane.server.scheme.key("leases", "default", "n"))
        assert item is not None
        self.ask(self.renewal(body=renewed(item.obj, second)))

    def patch(self, body: Any, **asked: Any) -> None:
        """Patch the lease, by default as an administrator."""
        self.ask(request("patch", *WHERE, body=body, content_type=MERGE, **{"user": ADMIN, **asked}))

    def is_open(self, asked: Request | None = None, path: tuple[str, ...] = RENEWAL) -> bool:
        """True if the server's fast path is open for such a request."""
        return self.plane.server.open_lease_path(asked or self.renewal(), path) is not None


def replace_request(asked: Request, **more: Any) -> Request:
    """The request with other members."""
    for name, value in more.items():
        setattr(asked, name, value)
    return asked


def bound(server: Leases) -> bool:
    server.plane.server.bounded = True
    return server.is_open()


def restarted(server: Leases) -> bool:
    lease_path = paths_of(server.plane.server)[server.plane.server.scheme.key("leases", "default", "n")]
    server.plane.supervisor[server.plane.server.name].crash()
    return lease_path.is_open(server.renewal())


def paused(server: Leases) -> bool:
    server.plane.supervisor[server.plane.server.name].pause()
    return server.is_open()


def storage_paused(server: Leases) -> bool:
    server.plane.supervisor["storage"].pause()
    return server.is_open()


def drifting(server: Leases) -> bool:
    ctx = server.plane.server.ctx
    assert ctx is not None
    ctx.clock.drift_ppm = 10
    return server.is_open()


def written_by_another(server: Leases) -> bool:
    server.patch({"metadata": {"labels": {"a": "b"}}})
    return server.is_open()


def owned_by_another(server: Leases) -> bool:
    server.patch({"metadata": {"labels": {"a": "b"}}})
    server.renew(4)
    return server.is_open()


def forbidden(server: Leases) -> bool:
    server.plane.server.authorizer = masters_only()
    return server.is_open()


CLOSED: dict[str, Callable[[Leases], bool]] = {
    "resource": lambda s: s.is_open(s.renewal(resource="pods")),
    "field": lambda s: s.is_open(path=("spec", "holderIdentity")),
    "bounded_server": bound,
    "dead_server": restarted,
    "paused_server": paused,
    "paused_storage": storage_paused,
    "drifting_clock": drifting,
    "other_user": lambda s: s.is_open(s.renewal(user=UserInfo("system:node:m", ()))),
    "other_manager": lambda s: s.is_open(s.renewal(manager="other")),
    "written_by_another": written_by_another,
    "owned_by_another": owned_by_another,
    "forbidden": forbidden,
}


async def opened(odd: Callable[[Leases], bool]) -> bool:
    async with plane(options=OPTIONS) as p:
        server = Leases(p)
        server.create()
        assert server.is_open()
        return odd(server)


@pytest.mark.parametrize("name", CLOSED)
def test_lease_fast_path_is_closed_to_requests_other_than_its_clients_renewals(name: str) -> None:
    assert not trio.run(opened, CLOSED[name])


OWNERS: dict[str, dict[str, Any]] = {
    "manager": {"manager": "other"},
    "operation": {"operation": "Apply"},
    "subresource": {"subresource": "status"},
    "version": {"api_version": "coordination.orch.io/v1beta1"},
    "fields": {"fields": {"f:spec": {"f:holderIdentity": {}}}},
}


@pytest.mark.parametrize("name", OWNERS)
def test_lease_fast_path_is_closed_while_its_client_does_not_own_the_time(name: str) -> None:
    async def main() -> None:
        async with plane(options=OPTIONS) as p:
            server = Leases(p)
            server.create()
            lease_path = paths_of(p.server)[p.server.scheme.key("leases", "default", "n")]
            item = lease_path.last
            assert item is not None
            owner = item.managed[0]
            members = {name: getattr(owner, name) for name in OWNER_MEMBERS} | OWNERS[name]
            lease_path.line = None
            assert server.is_open()
            lease_path.last = Item(item.key, item.obj, item.rev, item.created, (Managed(**members),))
            lease_path.line = None
            assert not server.is_open()
            assert lease_path.renew(1_767_225_609_000_000) is None  # 2026-01-01T00:00:09Z

    trio.run(main)


def test_lease_fast_path_does_not_write_a_time_that_is_stored_already() -> None:
    async def main() -> None:
        async with plane(options=OPTIONS) as p:
            server = Leases(p)
            server.create()
            lease_path = paths_of(p.server)[p.server.scheme.key("leases", "default", "n")]
            server.renew(4)
            value_us = 1_767_225_605_000_000  # 2026-01-01T00:00:05Z
            assert lease_path.renew(value_us) is not None
            assert lease_path.renew(value_us) is None
            server.patch({"metadata": {"labels": {"a": "b"}}}, user=NODE, manager="node")
            lease_path.line = None
            assert lease_path.renew(value_us) is None
            server.patch({"metadata": {"labels": {"a": "c"}}})
            assert lease_path.last is None and lease_path.renew(value_us + 1) is None

    trio.run(main)
