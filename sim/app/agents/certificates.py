"""How API servers know processes with simulated certificates, and processes API servers.

Turns the certificate of a process at the instant at which a request arrives into the user of the
request, or into 401; and the serving certificate of a server into connections that are made or
refused.

Holds: a process without simulated certificates is not asked for one, and uses the servers directly;
    while a certificate is valid, its process does so too, on the fast paths.

Mirrors  k8s.io/apiserver pkg/authentication/request/x509 (v1.25): the certificate of a connection
         is checked for each request; crypto/x509: that of a server when a client connects.
Differs  all requests of a controller manager count as those of its certificate, also those of its
         loops, which have tokens for an hour more; a connection that was found dead is made again
         without a look at the server's certificate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from actors.node.credentials import Credential
from sim.api import status
from sim.api.types import Endpoint, Reply, Request, UserInfo
from sim.units import Virtual

if TYPE_CHECKING:
    from actors.apiserver.server import ApiServer
    from actors.node.node import Node
    from sim.client import Channel
    from sim.kernel import Context, Kernel
    from sim.scenario.plan.plan import CertificatePlan

Identity = Callable[[UserInfo], UserInfo | None]
"""The user as which a server knows the sender of a request with this user; None for 401."""
Connect = Callable[..., "list[Channel]"]


class Door:
    """An API server as requests of one process reach it: without fast paths, by their credentials."""

    def __init__(self, server: ApiServer, identity: Identity) -> None:
        self._server, self._identity = server, identity

    @property
    def running(self) -> bool:
        """True while the server's process runs."""
        return self._server.running

    @property
    def ctx(self) -> Context | None:
        """The server's process."""
        return self._server.ctx

    def handle(self, request: Request, respond: Callable[[Reply], None]) -> None:
        """Serve a request."""
        user = self._identity(request.user)
        if user is None:
            respond(Reply(401, body=status.unauthorized()))
        else:
            self._server.handle(msgspec.structs.replace(request, user=user), respond)

    def forget(self, respond: Callable[[Reply], None]) -> None:
        """The client no longer waits."""
        self._server.forget(respond)


class Doors(Mapping[str, Endpoint]):
    """The servers of a cluster behind doors of one identity.

    own: the user of the process; while it is identified as that, the doors stand open
    """

    def __init__(self, servers: Mapping[str, ApiServer], identity: Identity, own: UserInfo) -> None:
        self._servers, self._identity, self._own = servers, identity, own
        self._made: dict[str, Door] = {}

    def __getitem__(self, name: str) -> Any:
        user = self._identity(self._own)
        if user is not None and user.name == self._own.name:
            return self._servers[name]
        if name not in self._made:
            self._made[name] = Door(self._servers[name], self._identity)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._servers)

    def __len__(self) -> int:
        return len(self._servers)


class Verified(Mapping[str, Endpoint]):
    """The servers as one process reaches them that looks at their certificates when it connects.

    made: the incarnations of servers to which it has a connection, by the time of their start
    """

    def __init__(self, files: CertificateFiles, servers: Mapping[str, Endpoint]) -> None:
        self._files, self._servers = files, servers
        self._made: dict[str, int] = {}

    def __getitem__(self, name: str) -> Any:
        server, started_us = self._servers[name], self._files.started_us(name)
        if started_us >= 0 and self._made.get(name) != started_us:
            current = self._files.held.get(name)
            if current is not None and not current.valid(self._files.wall_us()):
                raise KeyError(name)
            self._made[name] = started_us
        return server

    def __iter__(self) -> Iterator[str]:
        return iter(self._servers)

    def __len__(self) -> int:
        return len(self._servers)


class CertificateFiles:
    """The certificates in the files of the processes of a control plane, and of nodes.

    held: by process; a client takes its own over when it starts, an API server at once
    """

    def __init__(
        self,
        kernel: Kernel,
        plan: CertificatePlan,
        nodes: Mapping[str, Node],
        servers: Mapping[str, ApiServer],
    ) -> None:
        self.held: dict[str, Credential] = {}
        self._kernel, self._plan, self._nodes, self._servers = kernel, plan, nodes, servers
        self._taken: dict[str, tuple[int, Credential]] = {}  # by process, with its incarnation

    def wall_us(self) -> int:
        """The present Unix time."""
        return self._kernel.epoch_us + self._kernel.now_us

    def started_us(self, server: str) -> int:
        """When the incarnation of an API server has started; -1 if none runs."""
        result = self._servers.get(server)
        return -1 if result is None or not result.running else result.started_us

    def issue(self, process: str, valid_us: int) -> None:
        """Put a new certificate into the files of a process."""
        begin_us = self.wall_us()
        new = Credential(begin_us, begin_us + valid_us)
        node = self._nodes.get(process)
        if node is None:
            self.held[process] = new
        else:
            node.machine.certificates.installed = new

    def of(self, process: str) -> Credential | None:
        """The certificate in the files of a process; None if its end is not simulated."""
        lifetime_us = self._plan.of(process)
        if lifetime_us and process not in self.held:
            begin_us = self._kernel.epoch_us
            self.held[process] = Credential(begin_us, begin_us + lifetime_us)
        return self.held.get(process)

    def known(self, connect: Connect, own: UserInfo, servers: Mapping[str, ApiServer]) -> Connect:
        """Connections of processes that are known by the certificates of their files."""

        def connected(ctx: Context) -> list[Channel]:
            taken = self._take(ctx)
            if taken is None:
                return connect(ctx)

            def identity(user: UserInfo) -> UserInfo | None:
                return user if taken.valid(self.wall_us()) else None

            return connect(ctx, doors=Doors(servers, identity, own))

        return connected

    def _take(self, ctx: Context) -> Credential | None:
        """The certificate that an incarnation uses: that of its files when it started."""
        before = self._taken.get(ctx.name)
        if before is not None and before[0] == ctx.incarnation:
            return before[1]
        current = self.of(ctx.name)
        if current is not None:
            self._taken[ctx.name] = ctx.incarnation, current
            # At its end the fast paths are left, on which no one looks at it.
            end_us = current.end_us + 1 - self._kernel.epoch_us
            self._kernel.call_at(Virtual(max(self._kernel.now_us, end_us)), self._ended)
        return current

    def _ended(self, _: object) -> None:
        self._kernel.standing.moved()

    def verified(self, servers: Mapping[str, Endpoint]) -> Mapping[str, Endpoint]:
        """The servers as a new process reaches them."""
        if not self._plan.api_servers_us:
            return servers
        for name in self._servers:
            self.of(name)
        return Verified(self, servers)
