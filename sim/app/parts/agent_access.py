"""The users that node agents with simulated certificates are to API servers.

Turns the certificate that a machine keeps, or the token of a bootstrap configuration, into the user
of a request at the instant at which it arrives.

Mirrors  k8s.io/apiserver pkg/authentication/request/{x509,anonymous} (v1.25).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.node.credentials import Credential
from actors.node.requests import user_of
from sim.api.auth.authenticator import Accepted
from sim.api.types import Obj, UserInfo
from sim.app.agents.certificates import Identity
from sim.options.client_config import configured_token

if TYPE_CHECKING:
    from actors.node.runtime.machine import Machine
    from sim.app.parts.ports import BuiltCluster
    from sim.options.node.agent import NodeAgentOptions


def agent_identities(
    cluster: BuiltCluster, options: NodeAgentOptions, machine: Machine
) -> tuple[Identity, Identity]:
    """The users that an agent is to API servers: by its certificate, and by its bootstrap token.

    A machine without a bootstrap configuration has the certificate that it got when it joined.
    """
    kernel, names, store = cluster.kernel, cluster.names, cluster.storage.store
    anonymous = UserInfo(names.user_anonymous, (names.group_unauthenticated,))
    nobody = anonymous if cluster.options.authentication.anonymous_auth else None
    agent = user_of(names, machine.spec.name)
    if not options.bootstrap_config or cluster.plan.certificates.agents_us:
        lifetime_us = cluster.plan.certificates.agents_us
        lifetime_us = lifetime_us or cluster.options.controller_manager.cluster_signing_duration_us
        begin_us = kernel.epoch_us + kernel.now_us
        machine.certificates.client = Credential(begin_us, begin_us + lifetime_us)

    def wall_us() -> int:
        return kernel.epoch_us + kernel.now_us

    def by_certificate(_: UserInfo) -> UserInfo | None:
        current = machine.certificates.client
        if current is None:
            return nobody
        return agent if current.valid(wall_us()) else None

    def find(resource: str, namespace: str, name: str) -> Obj | None:
        item = store.get(cluster.scheme.key(resource, namespace, name))
        return None if item is None else item.obj

    def by_token(user: UserInfo) -> UserInfo | None:
        # The module needs no package, but most clusters have no use for it.
        from sim.api.auth.authenticators.bootstrap_tokens import BootstrapTokens

        if not options.bootstrap_config:
            return by_certificate(user)
        token = configured_token(options.bootstrap_config)
        result = BootstrapTokens(names, find, wall_us).authenticate(token, ())
        return result.user if isinstance(result, Accepted) else None

    return by_certificate, by_token
