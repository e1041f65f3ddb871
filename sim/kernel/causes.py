"""Active faults and other causes that no message carries.

A process that is crashed, paused or cut off sends nothing, so no message connects the fault with
the decisions of others that miss its messages. The supervisor and the network record here when a
fault of a host begins and ends, with the trace records of both. An actor that decides because of
missing messages finds the fault that was active during that time (`silence`) and uses its record as
the cause of the decision; a process with messages that arrive again finds the end of what hindered
it (`relief`). A deleted object sends no message either: an actor that lists too few objects finds
the last deletion (`gone`). An object that was written again no longer shows which write gave it its
present state: an actor that observed that write records it for its successor (`made`).

Holds: results depend only on what was recorded, in its order. At most KEPT faults of each host are
remembered, active ones rather than ended ones, then later ones rather than earlier ones; of deleted
objects and of states at most the latest GONE_MAX.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

import msgspec

from sim.units import Virtual

KEPT = 8  # more simultaneous faults of a host than explanations can distinguish
GONE_MAX = 16_384  # more objects than are deleted or scheduled between two leaders
# The last retransmission pause of a segment is below 60 s, and all pauses together are below twice
# that (`sim.kernel.network`).
LINGER_US = 120_000_000


class CauseHolder(Protocol):
    """The kernel, as far as causes are concerned.  cause: the record that caused the present work"""

    cause: int

    def follow(self, record: int) -> None:
        """Let a record be the cause of the rest of the present unit of work."""
        ...


class caused_by:
    """All work within this context is caused by the record (0: by the present cause), and what
    follows it by the cause from before.
    """

    __slots__ = ("_before", "_kernel", "_record")

    def __init__(self, kernel: CauseHolder, record: int) -> None:
        self._kernel = kernel
        self._record = record

    def __enter__(self) -> None:
        self._before = self._kernel.cause
        self._kernel.cause = self._record or self._before

    def __exit__(self, error: object, *_: object) -> None:
        if error is None:  # after an error the unit of work ends, and its cause with it
            self._kernel.cause = self._before


@contextmanager
def without_cause(kernel: CauseHolder) -> Iterator[None]:
    """Work within this context has no cause in the run, and what follows it the cause from before."""
    with caused_by(kernel, kernel.cause):
        kernel.follow(0)
        yield


class Fault(msgspec.Struct):
    """A fault of a host.

    what: name of the fault, unique among the active faults of the host
    mute: True if no message gets through
    lasting: True if its effect may outlast it
    record, began_us: trace record and time of its begin
    ended_us, over: time and trace record of its end; None and 0 while it is active
    whole: True if no other host receives messages of the host
    """

    what: str
    mute: bool
    lasting: bool
    record: int
    began_us: Virtual
    ended_us: Virtual | None = None
    over: int = 0
    whole: bool = False


class Standing:
    """The faults of a run, by host.  `now_us` and `cause` read the kernel's.

    epoch: number of state changes of processes, links, clocks, connections and the storage so far;
        an unchanged value means that there was none
    deferred: what schedules deferred work as ordinary events, to be called at the next state change
    """

    def __init__(self, now_us: Callable[[], Virtual], cause: Callable[[], int]) -> None:
        self._now_us = now_us
        self._cause = cause
        self._faults: dict[str, list[Fault]] = {}
        # By uid of the controller, or by the object's own key; the latest last.
        self._gone: dict[str, int] = {}
        # By a key that the successor of the recording actor uses too; the latest last.
        self._made: dict[str, int] = {}
        self.epoch = 0
        self.deferred: dict[Callable[[], None], None] = {}
        # Hosts between all others (storage, API servers): a cut from one of them is recorded as a
        # fault of the other side, and a fault of their own silences all hosts.
        self.shared: dict[str, None] = {}
        self.doors: dict[str, None] = {}  # those shared hosts to which all others send messages

    def moved(self) -> None:
        """A state changes: plan the deferred work that relied on the absence of changes."""
        self.epoch += 1
        deferred, self.deferred = self.deferred, {}
        for plan in deferred:
            plan()

    def begin(
        self,
        what: str,
        hosts: Iterable[str],
        mute: bool = True,
        lasting: bool = False,
        whole: Callable[[str], bool] = lambda _: False,
    ) -> int:
        """A fault of these hosts begins; its record is the present cause, which is returned.

        hosts: in a fixed order
        whole: returns True for a host with messages that reach no other host
        """
        self.moved()
        named = list(hosts)
        apart = [host for host in named if host not in self.shared]
        for host in apart or named:
            self._add(host, Fault(what, mute, lasting, self._cause(), self._now_us(), whole=whole(host)))
        return self._cause()

    def _add(self, host: str, fault: Fault) -> None:
        faults = self._faults.setdefault(host, [])
        if len(faults) == KEPT:
            over = (index for index, each in enumerate(faults) if each.ended_us is not None)
            del faults[next(over, 0)]
        faults.append(fault)

    def end(self, what: str, hosts: Iterable[str]) -> None:
        """The active faults of this name at these hosts end now."""
        self.moved()
        for host in hosts:
            for fault in self._faults.get(host, ()):
                if fault.what == what and fault.ended_us is None:
                    fault.ended_us, fault.over = self._now_us(), self._cause()

    def pass_on(self, what: str, host: str, record: int) -> None:
        """End the latest active fault of this name and begin it again with another record (no
        effect if none is active).
        """
        for fault in reversed(self._faults.get(host, ())):
            if fault.what == what and fault.ended_us is None:
                self.moved()
                fault.ended_us, fault.over = self._now_us(), self._cause()
                self._add(
                    host, Fault(what, fault.mute, fault.lasting, record, self._now_us(), whole=fault.whole)
                )
                return

    def went(self, what: str, record: int) -> None:
        """An object was deleted by the write of this record.

        what: uid of its controller; without a controller, its key in the store or a prefix of it
        """
        _note(self._gone, what, record)

    def gone(self, what: str) -> int:
        """The record of the last write that deleted this object or one that this uid owned; 0 if
        none is known.
        """
        return self._gone.get(what, 0)

    def make(self, what: str, record: int) -> None:
        """This object got its present state by that record; later writes do not change that."""
        _note(self._made, what, record)

    def made(self, what: str) -> int:
        """The record that gave this object its present state; 0 if none is known."""
        return self._made.get(what, 0)

    def silence(self, host: str, observer: str, since_us: Virtual) -> int:
        """The record of the fault that kept messages of `host` from `observer` since then; 0 if
        none is known.

        Faults that let nothing through take precedence over those that only hinder. Of either kind,
        the host's own come first, then those of the shared hosts, then the observer's (a stalled
        process receives nothing from any host). Of several, an active one precedes an ended one,
        then the one that began last decides. If there was none, the cause is the last change of the
        host's or the observer's clock, because a clock that was set back repeats earlier times. The
        last resort is the fault that hindered the host last, if it ended within LINGER_US, because
        a segment that was lost several times is retransmitted late.
        """
        for found in self._since(since_us, (host,), tuple(self.shared), (observer,)):
            whole = [fault for fault in found if fault.whole and fault.ended_us is None]
            if whole:
                return min(whole, key=_beginning).record
            if found:
                return max(found, key=_weight).record
        done = [fault for each in (host, observer) for fault in self._faults.get(each, ()) if fault.lasting]
        if done:
            return max(done, key=_end).over
        hindered = [
            fault
            for each in (host, *self.shared, observer)
            for fault in self._faults.get(each, ())
            if not fault.mute and (fault.ended_us or 0) >= since_us - LINGER_US
        ]
        return max(hindered, key=_end).record if hindered else 0

    def relief(self, host: str, since_us: Virtual) -> int:
        """The record of the end of what kept messages of `host` from others since then, in the same
        order of precedence; 0 if none is known, or if the first fault is still active, so that the
        messages arrive for another reason.
        """
        for found in self._since(since_us, (host,), tuple(self.shared)):
            if found:
                over = [fault for fault in found if fault.ended_us is not None]
                return max(over, key=_end).over if over else 0
        return 0

    def _since(self, since_us: Virtual, *groups: tuple[str, ...]) -> Iterator[list[Fault]]:
        """The faults of each group of hosts that were active at some time since then; those that
        let nothing through come first.
        """
        for mute in (True, False):
            for hosts in groups:
                yield [
                    fault
                    for host in hosts
                    for fault in self._faults.get(host, ())
                    if fault.mute is mute and (fault.ended_us is None or fault.ended_us >= since_us)
                ]


def _weight(fault: Fault) -> tuple[bool, int, int]:
    return fault.ended_us is None, fault.began_us, fault.record


def _beginning(fault: Fault) -> tuple[int, int]:
    return fault.began_us, fault.record


def _end(fault: Fault) -> tuple[int, int]:
    return fault.ended_us or 0, fault.over


def _note(known: dict[str, int], what: str, record: int) -> None:
    """Record as the latest entry; drop the earliest one if there are too many."""
    known.pop(what, None)
    known[what] = record
    if len(known) > GONE_MAX:
        del known[next(iter(known))]
