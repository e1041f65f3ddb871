"""Which fast paths a run takes, and the contract that all of them keep.

A fast path does the work of an ordinary path with fewer kernel events, fewer objects or less
memory.  Each can be switched off by itself, to find the one that is wrong and to measure what each
one saves.

Holds: a run has the same trace, and so the same SHA-256, under every `FastPaths`.  That rests on
four rules:
- a random draw is keyed by what it is for (`sim.kernel.draws.dice.keyed`): a request's delays by
  its link and the instant at which it is sent, a watch's by its link and the instant at which
  events leave the server.  No draw depends on the number or the purpose of earlier draws;
- calls due at one instant are ordered by the instant at which the ordinary path plans them
  (`Kernel.call_at`), not by the number of calls planned so far;
- a fast path that skips steps falls back, at the instant at which anything moves
  (`Standing.moved`), to the step that the ordinary path would be at;
- what is encoded in the trace depends on the record alone, not on the path that adds it.
"""

from __future__ import annotations

from dataclasses import fields

from sim.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class FastPaths:
    """The switches.

    templates: a request of a known shape is served by a write template
        (`actors.apiserver.fast.write_templates`)
    leases: a lease is renewed without a request (`sim.client.fast.lease_renewal`,
        `actors.apiserver.fast.lease_updates`)
    columns: undisturbed lease renewals of many nodes are computed with arrays
        (`actors.storage.columns.renewals`)
    calls: a read, a status patch or an event takes no request (`sim.client.fast.coalesced_calls`)
    read_writes: a read and the write that follows are one kernel event
        (`sim.client.fast.read_modify_write`)
    lazy: watch events are taken when the informer is read, where no handler needs them at once
        (`sim.client.cache.informer`)
    compact: stored objects at rest are kept in a packed form (`actors.storage.compact.items`)
    search: the scheduler evaluates only nodes with changes again for a class of equal pods
        (`actors.scheduler.search`)
    postings: a list with a selector reads the keys by value (`actors.storage.postings`)
    """

    templates: bool = True
    leases: bool = True
    columns: bool = True
    calls: bool = True
    read_writes: bool = True
    lazy: bool = True
    compact: bool = True
    search: bool = True
    postings: bool = True

    @classmethod
    def of(cls, fast: bool | FastPaths) -> FastPaths:
        """All fast paths (True), none (False), or those given."""
        if isinstance(fast, FastPaths):
            return fast
        return FAST if fast else PLAIN


NAMES = tuple(field.name for field in fields(FastPaths))
FAST = FastPaths()
PLAIN = FastPaths(**dict.fromkeys(NAMES, False))
