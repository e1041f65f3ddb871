"""The authorities with which the signers of certificates sign, of one cluster.

Turns what a served cluster is given at its gate, or the seed of another one, into certificate and
key of a signer, PEM.
"""

from __future__ import annotations

from collections.abc import Callable

from sim.ident import Names
from sim.kernel import Kernel


class SigningAuthorities:
    """The authorities by the name of the signer; "" stands for every other signer."""

    def __init__(self, kernel: Kernel, names: Names) -> None:
        self._kernel, self._names = kernel, names
        self._given: dict[str, str] = {}
        kernel.gate.handle("signing-authorities", self._take)

    def _take(self, authorities: dict[str, str], done: Callable[[None], None]) -> None:
        """Take the authorities under which the cluster is served from now on."""
        self._given = authorities
        done(None)

    def of(self, signer: str) -> str:
        """The authority of a signer; until the cluster is served, one derived from the seed."""
        found = self._given.get(signer) or self._given.get("")
        if found is None:
            # A cluster that signs nothing needs no package for cryptography.
            from actors.controllers.certificates.issue import stand_in

            secret = self._kernel.stream("signing-authority").getrandbits(256)
            found = stand_in(self._names.component("ca"), secret, self._kernel.epoch_us)
            self._given[""] = found
        return found
