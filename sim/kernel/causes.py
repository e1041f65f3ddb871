"""Faults that stand: what to blame for silence, and what ended it; and what is gone, or was made
so, for who comes later.

A process that is dead, stopped or cut off sends nothing, so no message leads from the fault to what
others decide when they miss it.  The supervisor and the network note here when a fault of a host
begins and ends, with the trace records it began and ended by; whoever decides from silence asks
which of them was in force meanwhile (`silence`) and makes its decision caused by that record; who
is heard again, by the end of what hindered it (`relief`). Nor does an object that is gone tell of
itself: who lists what is there and finds too little asks what went last (`gone`). And one that was
written since does not tell what made it as it is: who saw that notes it for its successor (`made`).

Holds: answers depend on what was noted, in order, and on nothing else; of each host at most KEPT
faults are
remembered: those that stand rather than those that are over, the latest; of what is gone, and of
    what was made, the latest GONE_MAX.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import msgspec

KEPT = 8  # more at a time than anybody can tell apart
GONE_MAX = 16_384  # more than go, lose something or have schedules while one leader follows another
# a segment's last wait is below 60 s, all of them together below twice that (`sim.kernel.network`)
LINGER_US = 120_000_000


class Fault(msgspec.Struct):
    """`what` names it among those of a host; mute: nothing gets through; lasting: what it did may
    outlast it; whole: nobody at all hears the host; `ended_us` None: it stands; over: the record of
    its end.
    """

    what: str
    mute: bool
    lasting: bool
    record: int
    began_us: int
    ended_us: int | None = None
    over: int = 0
    whole: bool = False


class PutOff(Protocol):
    """Something due that makes no difference while nothing moves."""

    def plan(self) -> None: ...


class Standing:
    """The faults of a run, by host.  `now_us` and `cause` read the kernel's.

    moves: counts each change of state of a process, a link, a clock, a connection or the storage;
        while it stays the same none has happened.
    put_off: who is to be told when something moves
    """

    def __init__(self, now_us: Callable[[], int], cause: Callable[[], int]) -> None:
        self._now_us = now_us
        self._cause = cause
        self._faults: dict[str, list[Fault]] = {}
        # by the uid of its controller, or its own key, the latest last
        self._gone: dict[str, int] = {}
        # by what its maker's successor knows it by, the latest last
        self._made: dict[str, int] = {}
        self.moves = 0
        self.put_off: dict[PutOff, None] = {}
        # Hosts that stand between everybody (storage, API servers): a cut from one of them is the
        # other side's fault, a fault of their own silences all.
        self.shared: dict[str, None] = {}
        self.doors: dict[str, None] = {}  # those of them to whom all others speak

    def moved(self) -> None:
        """Something changes its state: what was put off because nothing did is to be planned after
        all.
        """
        self.moves += 1
        put_off, self.put_off = self.put_off, {}
        for each in put_off:
            each.plan()

    def begin(
        self,
        what: str,
        hosts: Iterable[str],
        mute: bool = True,
        lasting: bool = False,
        whole: Callable[[str], bool] = lambda _: False,
    ) -> int:
        """A fault of these hosts begins, by the record that is the cause now, which is returned.
        `hosts` in a fixed order.

        whole: whether nobody at all hears one of them
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
        self.moved()
        for host in hosts:
            for fault in self._faults.get(host, ()):
                if fault.what == what and fault.ended_us is None:
                    fault.ended_us, fault.over = self._now_us(), self._cause()

    def pass_on(self, what: str, host: str, record: int) -> None:
        """The one that began last of what stands of this name ends, and goes on by another record
        (no effect if none does).
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
        """An object is gone by the write of this record: one that the owner of this uid controls,
        or the one of this key in the store if nobody does; or one of those whose keys begin so.
        """
        _note(self._gone, what, record)

    def gone(self, what: str) -> int:
        """The record of the write by which that went, or its owner lost an object last; 0 if none
        is known.
        """
        return self._gone.get(what, 0)

    def make(self, what: str, record: int) -> None:
        """This is as it is by that record, whatever is written of it later."""
        _note(self._made, what, record)

    def made(self, what: str) -> int:
        """The record by which this is as it is; 0 if none is known."""
        return self._made.get(what, 0)

    def silence(self, host: str, observer: str, since_us: int) -> int:
        """The record of the fault that kept `observer` from hearing `host` since then; 0 if none is
        known.

        Those that let nothing through come before those that only hinder.  Of either the host's own come first, then
        those of what stands between, then the observer's (a stalled process finds everybody silent); of several one
        that stands still rather than one that is over, and the one that began last.  When there was none, what was done to
        the host's clock, or to the observer's, is to blame: one that was set back is behind what it said before.  And at last
        what hindered it last, if that ended within LINGER_US: a segment that was lost again and again is sent anew late.
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

    def relief(self, host: str, since_us: int) -> int:
        """The record of the end of what kept others from hearing `host` since then, in the same
        order; 0 if none is known, or what would be blamed still stands: then it is heard for
        another reason.
        """
        for found in self._since(since_us, (host,), tuple(self.shared)):
            if found:
                over = [fault for fault in found if fault.ended_us is not None]
                return max(over, key=_end).over if over else 0
        return 0

    def _since(self, since_us: int, *groups: tuple[str, ...]) -> Iterator[list[Fault]]:
        """The faults of each group of hosts that were there at some time since then: first those
        that are mute.
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
    """As the latest; the earliest goes if there are too many."""
    known.pop(what, None)
    known[what] = record
    if len(known) > GONE_MAX:
        del known[next(iter(known))]
