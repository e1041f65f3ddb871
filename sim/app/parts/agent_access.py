"""How API servers know node agents with simulated certificates.

Turns the certificate that a machine keeps, or the token of a bootstrap configuration, into the user
of a request at the instant at which it arrives; a request with a certificate that has expired, or
with a token that no Secret allows, is answered with 401.

Holds: agents without options of certificates are not asked for one, and use the servers directly.

Mirrors  k8s.io/apiserver pkg/authentication/request/{x509,anonymous} (v1.25).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from actors.apiserver.server import ApiServer
from actors.node.credentials import Credential
from actors.node.requests import user_of
from actors.node.runtime.machine import Machine
from sim.api import status
from sim.api.auth.authenticator import Accepted
from sim.api.types import Endpoint, Obj, Reply, Request, UserInfo
from sim.app.parts.ports import BuiltCluster
from sim.kernel import Context
from sim.options.client_config import configured_token
from sim.options.node.agent import NodeAgentOptions
from sim.units import HOUR

INSTALLED_US = 365 * 24 * HOUR  # kubeadm: CertificateValidity
Identity = Callable[[], UserInfo | None]


class Door:
    """An API server as one agent's requests reach it: without fast paths, and by their credentials."""

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
        user = self._identity()
        if user is None:
            respond(Reply(401, body=status.unauthorized()))
        else:
            self._server.handle(msgspec.structs.replace(request, user=user), respond)

    def forget(self, respond: Callable[[Reply], None]) -> None:
        """The client no longer waits."""
        self._server.forget(respond)


class Doors(Mapping[str, Endpoint]):
    """The servers of a cluster behind doors of one identity.

    own: the user of the agent; while it is identified as that, the doors stand open
    """

    def __init__(self, servers: Mapping[str, ApiServer], identity: Identity, own: str) -> None:
        self._servers, self._identity, self._own = servers, identity, own
        self._made: dict[str, Door] = {}

    def __getitem__(self, name: str) -> Any:
        user = self._identity()
        if user is not None and user.name == self._own:
            return self._servers[name]
        if name not in self._made:
            self._made[name] = Door(self._servers[name], self._identity)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._servers)

    def __len__(self) -> int:
        return len(self._servers)


def agent_identities(
    cluster: BuiltCluster, options: NodeAgentOptions, machine: Machine
) -> tuple[Identity, Identity]:
    """The users that an agent is to API servers: by its certificate, and by its bootstrap token.

    A machine without a bootstrap configuration has the certificate that kubeadm makes for it.
    """
    kernel, names, store = cluster.kernel, cluster.names, cluster.storage.store
    anonymous = UserInfo(names.user_anonymous, (names.group_unauthenticated,))
    nobody = anonymous if cluster.options.authentication.anonymous_auth else None
    agent = user_of(names, machine.spec.name)
    if not options.bootstrap_config:
        begin_us = kernel.epoch_us
        machine.certificates.client = Credential(begin_us, begin_us + INSTALLED_US)

    def wall_us() -> int:
        return kernel.epoch_us + kernel.now_us

    def by_certificate() -> UserInfo | None:
        held = machine.certificates.client
        if held is None:
            return nobody
        return agent if held.valid(wall_us()) else None

    def find(resource: str, namespace: str, name: str) -> Obj | None:
        item = store.get(cluster.scheme.key(resource, namespace, name))
        return None if item is None else item.obj

    def by_token() -> UserInfo | None:
        # The module needs no package, but most clusters have no use for it.
        from sim.api.auth.authenticators.bootstrap_tokens import BootstrapTokens

        if not options.bootstrap_config:
            return by_certificate()
        token = configured_token(options.bootstrap_config)
        found = BootstrapTokens(names, find, wall_us).authenticate(token, ())
        return found.user if isinstance(found, Accepted) else None

    return by_certificate, by_token
