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
    """

    client: Credential | None = None
    serving: Credential | None = None
    attempts: int = 0
