"""What a machine keeps of its agent's certificates, also while no agent runs."""

from __future__ import annotations

from sim.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Credential:
    """One certificate.

    begin_us, end_us: Unix times between which it is valid
    pem: as it was issued; "" for one that an installer has put there
    """

    begin_us: int
    end_us: int
    pem: str = ""

    def valid(self, wall_us: int) -> bool:
        """True while servers accept it."""
        return wall_us <= self.end_us


@dataclass(slots=True)
class Certificates:
    """The certificates in the directory of an agent.

    client: with which it asks API servers; serving: with which its own server answers
    attempts: how many keys have been made, of which each is another
    installed: a client certificate that a person has put there, which the next start takes over
    """

    client: Credential | None = None
    serving: Credential | None = None
    attempts: int = 0
    installed: Credential | None = None

    def secret(self, drawn: int, *, serving: bool, named: bool) -> int:
        """The secret number from which the next key is made: the one that was drawn.

        named: True for the key of the first request, which is found again by its name
        """
        return drawn

    def keep(self, pem: bytes, *, serving: bool) -> None:
        """A certificate was issued for the last key; nothing is written of a simulated one."""
