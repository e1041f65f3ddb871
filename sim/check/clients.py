"""The expectation that users of a Service are served: for how long their requests fail.

    - name: users notice nothing
      unavailability: {of: services/web, atMost: 1s}
      after: rollout

Turns the requests of clients (the step `request`) into the time in which they fail, and the numbers
of those that were refused, timed out, or found no name. A failed request counts for the time until
its client sends the next one; times of several clients are not added.
"""

from __future__ import annotations

from collections import Counter

from msgspec import UNSET

from actors.users.requests import Outcome
from sim.api.store import Change
from sim.check.expect import Expectation, Spec, duration_us
from sim.check.world import World
from sim.dataclass import dataclass
from sim.ident import Names
from sim.verdict import Verdict, unit_of

SERVICES = "services/"  # of the target of an unavailability


@dataclass(frozen=True, slots=True)
class ServiceRequest:
    """A request of a client that has ended.

    client: the step that sent it; service: the key of the Service
    sent_us, next_us: when it was sent, and when its client sends the next one
    outcome: "answered", "refused", "timed out", "cut off", "without a name"
    endpoint: the key of the pod that it was sent to, "" for none
    """

    client: str
    service: str
    sent_us: int
    next_us: int
    outcome: str
    endpoint: str

    @property
    def answered(self) -> bool:
        """True if it was served."""
        return self.outcome == Outcome.ANSWERED.value


class ServiceUnavailability(Expectation):
    """Requests to a Service fail for at most so long, in all, within the window."""

    needs_clients = True

    def __init__(self, spec: Spec, names: Names) -> None:
        super().__init__(spec)
        entry = spec.unavailability
        parts = entry.of.removeprefix(SERVICES).split("/")
        namespace, name = (
            parts if len(parts) == 2 else (names.default_namespace, entry.of.removeprefix(SERVICES))
        )
        if not namespace or not name or "/" in name:
            raise ValueError(
                f"'of': {entry.of!r} is no Service, write services/web or services/NAMESPACE/web"
            )
        at_most_us = duration_us(entry.at_most)
        if at_most_us is None or at_most_us < 0:
            raise ValueError(f"'atMost': {entry.at_most!r} is no duration, write it as 90s or 5m")
        if entry.below is not UNSET or entry.view != "truth":
            raise ValueError("requests to a Service fail or not: leave 'below' and 'view' out")
        self.at_most_us, self.unit = at_most_us, unit_of(entry.at_most)
        self._key = f"//services/{namespace}/{name}"
        self._failures: list[tuple[int, int, str]] = []  # sent, next, outcome
        self._sent: list[int] = []

    def matters(self) -> tuple[()]:
        """None: it has no condition."""
        return ()

    def resources(self) -> frozenset[str]:
        """None: what the API says is not what clients see."""
        return frozenset()

    def take(self, world: World, resource: str, change: Change) -> None:
        """Has no effect."""

    def request(self, request: ServiceRequest, at_us: int) -> None:
        """Take a request of a client."""
        if request.service != self._key:
            return
        self._sent.append(request.sent_us)
        if request.answered:
            return
        self._failures.append((request.sent_us, request.next_us, request.outcome))
        if self.decided_us is None and self.in_window(request.sent_us):
            self.decided_us, self.subject = request.sent_us, request.endpoint or self._key

    def at_fault(self) -> tuple[str, ...]:
        """The pod that the first failed request was sent to, and the Service."""
        return tuple(dict.fromkeys((*super().at_fault(), self._key)))

    def judge(self, end_us: int) -> Verdict:
        """The verdict on the time in which requests failed."""
        target = f"requests fail for at most {self.shown(self.at_most_us)}"
        if never := self.unopened(target):
            return never
        from_us = self.from_us or 0
        stop_us = end_us if self.end_us is None else min(end_us, self.end_us)
        sent = sum(from_us <= at_us < stop_us for at_us in self._sent)
        if not sent:
            where = self._key.removeprefix("//")
            return Verdict(self.name, False, f"no client sent a request to {where}", target)
        failures = [one for one in self._failures if from_us <= one[0] < stop_us]
        failed_us = covered_us([(begin_us, min(next_us, stop_us)) for begin_us, next_us, _ in failures])
        counts = Counter(outcome for _, _, outcome in failures)
        text = f"{self.shown(failed_us)}, {len(failures)} of {sent} requests failed"
        if counts:
            text += f" ({', '.join(f'{count} {what}' for what, count in sorted(counts.items()))})"
        return Verdict(self.name, failed_us <= self.at_most_us, text, target, (failed_us / 1e6,))


def covered_us(spans: list[tuple[int, int]]) -> int:
    """The time that spans cover together."""
    total_us = until_us = 0
    for begin_us, end_us in sorted(spans):
        total_us += max(0, end_us - max(begin_us, until_us))
        until_us = max(until_us, end_us)
    return total_us
