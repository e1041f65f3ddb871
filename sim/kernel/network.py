"""The network between actors: latency, loss, duplication and partitions per direction of each pair.

A `Link` is one direction between two named hosts. Rules (a partition, a slow path) name two groups
of hosts and apply to links as links are created and rules come and go; of the rules that set a
property the last one wins, and any rule can cut. Latencies are uniform in [low, high) microseconds.
One draw of 64 bits (a lot) serves a whole request: it is keyed by the link of the request and the
instant of its sending, and gives the delay of the request, that of its reply and the storage's
latency. Messages that are sent over a link at one instant travel together.

Holds: a link's draws depend only on the seed, its two names and the instant; removing a rule
restores the link's properties without it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import InitVar, dataclass, field
from enum import IntEnum

from sim.kernel.causes import Standing
from sim.kernel.draws.arrivals import Arrivals
from sim.kernel.draws.dice import GAMMA, MASK, Dice
from sim.kernel.draws.streams import key_of
from sim.units import Virtual

# One-way delay of a data-centre network: published medians are 0.1 to 0.5 ms within and up to 1 ms
# between zones; the timing cases in the tests allow requests 20 ms and watch delivery 50 ms.
DEFAULT_LOW_US = 200
DEFAULT_HIGH_US = 800
# A lost segment of an established TCP connection is sent again after the minimum RTO (Linux: 200
# ms).
RETRANSMIT_US = 200_000


class Purpose(IntEnum):
    """Purpose of a request, as far as its draw depends on it."""

    ANY = 0
    ELECTION = 1
    NODE_REPORT = 2
    POD_STATUS = 3
    EVENT = 4


@dataclass(slots=True)
class Rule:
    """What applies from the hosts of `sources` to those of `targets` (None: any host) while the
    rule is in force.
    """

    name: str
    sources: frozenset[str] | None
    targets: frozenset[str] | None
    cut: bool = False
    low_us: int | None = None
    high_us: int | None = None
    loss: float | None = None
    duplication: float | None = None
    both_ways: bool = True
    record: int = 0  # trace record of the change that put it into force

    def covers(self, source: str, target: str) -> bool:
        """True if the rule applies to this direction."""
        forward = self._in(self.sources, source) and self._in(self.targets, target)
        return forward or (
            self.both_ways and self._in(self.sources, target) and self._in(self.targets, source)
        )

    def silences(self, host: str, doors: Collection[str]) -> bool:
        """True if no message of a host arrives at any of `doors`."""
        apart = self.cut and host not in doors
        return apart and bool(doors) and all(self.covers(host, door) for door in doors)

    @property
    def named(self) -> list[str]:
        """The hosts that the rule names."""
        return sorted((self.sources or frozenset()) | (self.targets or frozenset()))

    @staticmethod
    def _in(group: frozenset[str] | None, host: str) -> bool:
        return group is None or host in group


@dataclass(slots=True)
class Link:
    """One direction between two hosts.

    listeners: called before its delays change, before and after it is cut or healed, and when the
        source's process is paused, resumes or is an API server that crashes
    own: True for a separate line, to which only rules apply that name both hosts
    duplication: share of requests that arrive twice
    duplicated_by: trace record of the rule that sets it
    about: the resource of the watches that have these delays; "" for all other messages
    """

    source: str
    target: str
    up: bool = True
    low_us: int = DEFAULT_LOW_US
    high_us: int = DEFAULT_HIGH_US
    loss: float = 0.0
    duplication: float = 0.0
    duplicated_by: int = 0
    own: bool = False
    about: str = ""
    seed: InitVar[int] = 0
    draws: InitVar[str] = ""
    listeners: list[Callable[[], None]] = field(default_factory=list)
    key: int = field(init=False)

    def __post_init__(self, seed: int, draws: str) -> None:
        about = f"/{self.about}" if self.about else ""
        self.key = key_of(seed, f"{draws}link/{self.source}>{self.target}{about}")

    @property
    def clear(self) -> bool:
        """True if it is up and carries everything as fast as by default."""
        return self.up and not self.loss and (self.low_us, self.high_us) == (DEFAULT_LOW_US, DEFAULT_HIGH_US)

    @property
    def steady(self) -> bool:
        """True if messages are neither lost nor duplicated."""
        return not self.loss and not self.duplication

    def draw(self, at_us: Virtual, purpose: int = 0) -> int:
        """The 64 random bits of what is sent at an instant. `delay_us` uses the lowest 16, that of
        the reply the next 16, the storage's latency the 16 after these, and `duplicates` the
        highest.

        purpose: separates coalesced calls from other calls that are sent at the same instant
            (`Purpose`)
        """
        state = (self.key + at_us * GAMMA + (purpose << 56)) & MASK
        mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK  # `mix`, inlined
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & MASK
        return mixed ^ (mixed >> 31)

    def delay_at_us(self, at_us: Virtual) -> int:
        """The delay of a segment that is sent at an instant, by its own draw."""
        if self.loss:
            return self.delay_us(self.draw(at_us))
        low = self.low_us
        return low + ((self.draw(at_us) & 0xFFFF) * (self.high_us - low) >> 16)

    def delay_us(self, draw: int) -> int:
        """The delay of one segment of an established connection; loss appears as retransmission."""
        low = self.low_us
        delay = low + ((draw & 0xFFFF) * (self.high_us - low) >> 16)
        if self.loss:
            again, dice = RETRANSMIT_US, Dice(draw ^ self.key)
            while dice.below(1 << 32) < self.loss * (1 << 32) and again < 60_000_000:
                delay += again
                again *= 2
        return delay

    def duplicates(self, draw: int) -> bool:
        """True if the request arrives twice."""
        return (draw >> 48 & 0xFFFF) < self.duplication * (1 << 16)


class Network:
    """All links of a run, created on first use. Active rules are faults of the hosts that they name
    (`standing`).
    """

    def __init__(self, seed: int, standing: Standing) -> None:
        self._seed = seed
        self._standing = standing
        self._arrivals: Arrivals | None = None
        self._links: dict[tuple[str, str], Link] = {}
        self._rules: dict[str, Rule] = {}
        self.settled: list[Callable[[], None]] = []  # called when rules have been added or removed

    @property
    def rules(self) -> Collection[Rule]:
        """The rules in force."""
        return self._rules.values()

    def link(self, source: str, target: str, own: bool = False) -> Link:
        """The one link from source to target, the same object on every call."""
        entry = self._links.get((source, target))
        if entry is None:
            entry = self._links[source, target] = self._new(source, target, own)
        return entry

    def watch_link(self, link: Link, resource: str) -> Link:
        """The delays of the watches of a resource over a link: its own, unless they are arranged."""
        if self._arrivals is None or not self._arrivals.separates_watches:
            return link
        key = link.source, f"{link.target} {resource}"
        entry = self._links.get(key)
        if entry is None:
            entry = self._links[key] = self._new(link.source, link.target, link.own, resource)
        return entry

    def _new(self, source: str, target: str, own: bool, about: str = "") -> Link:
        draws = "" if self._arrivals is None else self._arrivals.draws
        link = Link(source, target, own=own, about=about, seed=self._seed, draws=draws)
        self._settle(link)
        return link

    def arrange(self, arrivals: Arrivals | None, latency_us: tuple[int, int] | None = None) -> None:
        """Let messages arrive in another order, and with other latencies, for the whole run."""
        assert not self._links, "they are for the whole run"
        self._arrivals = arrivals
        if latency_us is not None:
            low_us, high_us = latency_us
            self.impose(Rule("latency", None, None, low_us=low_us, high_us=high_us))

    def stir(self, host: str) -> None:
        """Notify the listeners of a host's links: its process is paused, resumes or crashes."""
        for (source, _), link in list(self._links.items()):
            if source == host:
                for listener in link.listeners:
                    listener()

    def impose(self, rule: Rule) -> None:
        """Put a rule into force. Replacing a rule of the same name continues the same fault, at
        more or fewer hosts.
        """
        before = self._rules.get(rule.name)
        current = [] if before is None else before.named
        self._standing.end(rule.name, [host for host in current if host not in rule.named])
        self._rules[rule.name] = rule
        new = [host for host in rule.named if host not in current]
        record = self._standing.begin(
            rule.name, new, rule.cut, whole=lambda host: rule.silences(host, self._standing.doors)
        )
        rule.record = record if before is None else before.record
        self._settle_all()

    def lift(self, name: str) -> None:
        """Remove a rule; an unknown name is a bug of the caller."""
        rule = self._rules.pop(name)
        self._standing.end(name, rule.named)
        self._settle_all()

    def _settle_all(self) -> None:
        for link in list(self._links.values()):
            self._settle(link)
        for tell in list(self.settled):
            tell()

    def _settle(self, link: Link) -> None:
        up, low, high, loss, twice, by = True, DEFAULT_LOW_US, DEFAULT_HIGH_US, 0.0, 0.0, 0
        for rule in self._rules.values():
            if link.own and (rule.sources is None or rule.targets is None):
                continue
            if rule.covers(link.source, link.target):
                up = up and not rule.cut
                low = low if rule.low_us is None else rule.low_us
                high = max(low, high if rule.high_us is None else rule.high_us)
                loss = loss if rule.loss is None else rule.loss
                if rule.duplication is not None:
                    twice, by = rule.duplication, rule.record
        if self._arrivals is not None:
            low, high = self._arrivals.bounds_us((link.about, link.source, link.target), low, high)
        changed = up != link.up
        if changed or (low, high, loss) != (link.low_us, link.high_us, link.loss):
            for listener in link.listeners:
                listener()
        link.up, link.low_us, link.high_us, link.loss = up, low, high, loss
        link.duplication, link.duplicated_by = twice, by
        if changed:
            for listener in link.listeners:
                listener()
