"""The credentials that a served cluster gets from outside: authorities, and the key of tokens.

They enter through the gate, so that a journal holds them and a replay has the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from actors.apiserver import ApiServer
from actors.controllers.shared.shell import RootCa
from sim.api.verbs.call import Identities
from sim.ident import Names
from sim.kernel import Kernel


class SigningAuthorities:
    """The authorities of the signers of certificates: PEM of certificate and key, by signer.

    A served cluster gets them through the gate.  A pure simulation derives one from the seed.
    """

    def __init__(self, kernel: Kernel, names: Names) -> None:
        self._kernel = kernel
        self._names = names
        self._found: dict[str, str] = {}
        kernel.gate.handle("signing-authorities", self._take)

    def _take(self, authorities: dict[str, str], done: Callable[[None], None]) -> None:
        """Take the authorities; "" stands for every other signer."""
        self._found = authorities
        done(None)

    def authority(self, signer: str) -> str:
        """The authority of a signer."""
        found = self._found.get(signer) or self._found.get("")
        if found is None:
            # A cluster that signs nothing needs no package for cryptography.
            from actors.controllers.certificates.issue import stand_in

            secret = self._kernel.stream("signing-authority").getrandbits(256)
            name = self._names.component("ca")
            found = self._found[""] = stand_in(name, secret, self._kernel.epoch_us)
        return found


def accept_credentials(
    kernel: Kernel, root_ca: RootCa, identities: Identities, servers: Mapping[str, ApiServer]
) -> None:
    """Take the credentials that arrive at the gate of a kernel.

    root_ca: gets the authority under which the cluster is served from then on
    identities: get the key with which tokens of service accounts are signed from then on
    servers: get the authorities of clients, as other servers may know them
    """

    def take_root_ca(pem: str, done: Callable[[None], None]) -> None:
        root_ca.pem = pem
        done(None)

    def take_authorities(data: dict[str, str], done: Callable[[None], None]) -> None:
        for server in servers.values():
            server.trust.data = data
        done(None)

    def take_key(pem: str, done: Callable[[None], None]) -> None:
        # A cluster that is not served needs no package for cryptography.
        from sim.api.auth.keys import read_signing_key

        identities.sign = read_signing_key(pem.encode()).token
        done(None)

    kernel.gate.handle("root-ca", take_root_ca)
    kernel.gate.handle("client-authorities", take_authorities)
    kernel.gate.handle("service-account-key", take_key)
