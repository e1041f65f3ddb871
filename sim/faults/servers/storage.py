"""storage: the storage is paused, slow, full, defragmented, set back, or has lost its quorum.

Mirrors  etcd 3.5 server/etcdserver/apply.go (applierV3Capped: with the alarm NOSPACE a write fails
         at once, a deletion does not); server/mvcc/backend/backend.go (defrag: reads and writes of
         the member wait); the guides of etcd and Kubernetes: all API servers are stopped while etcd
         is restored, and started again.
Differs  a fault of one member acts on the links of the API servers that use it to the storage, so
         that no leader is elected; quotas are not measured, so that only a step uses them up; API
         servers that are not restarted with a restored storage are not simulated.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, assert_never

from msgspec import UNSET, Meta, UnsetType

from sim.dataclass import dataclass
from sim.faults.shared.context import Context, delay_of
from sim.faults.shared.kinds import Action, Ends, Fault, Imposed, Stage
from sim.faults.shared.ledger import END_OF, Aspect, Ledger
from sim.faults.shared.parameters import OneOrMore, Strict
from sim.kernel import Rule
from sim.units import SECOND, Virtual, format_duration

STORAGE = "storage"
Mode = Literal["pause", "lost-quorum", "slow", "no-space", "defragment", "restore"]
OF_A_MEMBER = ("pause", "slow", "defragment")  # the others are states of all members together


class Storage(Strict):
    """The parameters of `storage`."""

    how: Annotated[Mode, Meta(description="How the storage fails.")]
    by: Annotated[
        str | UnsetType, Meta(description="With `slow`: the additional time of each operation.")
    ] = UNSET
    to: Annotated[
        str | UnsetType, Meta(description="With `restore`: the instant of the run that it is set back to.")
    ] = UNSET
    api_server: Annotated[
        OneOrMore | UnsetType,
        Meta(
            description="With `pause`, `slow` and `defragment`: only the member that these API servers use; "
            "default all members."
        ),
    ] = UNSET


@dataclass(frozen=True, slots=True)
class StorageFault(Imposed):
    """The storage fails.  servers: those that use the member that fails; None for all members"""

    how: Mode
    by_us: int
    servers: tuple[str, ...] | None = None

    def impose(self, stage: Stage, step: str) -> None:
        """The storage fails."""
        if self.servers:
            slow_us = self.by_us // 2 or None  # of an operation, and of its answer
            stage.cluster.kernel.network.impose(
                Rule(
                    f"step {step}",
                    frozenset(self.servers),
                    frozenset({STORAGE}),
                    cut=slow_us is None,
                    low_us=slow_us,
                    high_us=slow_us,
                )
            )
            return
        match self.how:
            case "pause" | "defragment":
                stage.faults.impose(step, STORAGE, "pause")
            case "lost-quorum":
                stage.faults.impose(step, STORAGE, "quorum")
            case "slow":
                stage.faults.impose(step, STORAGE, "disk", self.by_us)
            case "no-space":
                stage.faults.impose(step, STORAGE, "space")
            case "restore":
                raise AssertionError("it is an action of its own")
            case _:
                assert_never(self.how)

    def lift(self, stage: Stage, step: str) -> None:
        """End the fault."""
        if self.servers:
            stage.cluster.kernel.network.lift(f"step {step}")
            return
        stage.faults.lift(step)
        if self.how == "defragment":  # it frees what the history has left
            stage.heal(STORAGE, "space")


@dataclass(frozen=True, slots=True)
class RestoreStorage(Action):
    """The storage is set back to its state at `to_us`, an instant of the run."""

    to_us: Virtual
    lasts: ClassVar[bool] = False

    @property
    def past_us(self) -> Virtual:
        """The instant."""
        return self.to_us

    def begin(self, stage: Stage, step: str) -> None:
        """Stop the storage and all API servers, set it back, and start them again."""
        cluster = stage.cluster
        cluster.storage.store.detach()
        named = [cluster.supervisor[name] for name in (STORAGE, *cluster.api_servers)]
        stopped = [process for process in named if process.running]
        for process in reversed(stopped):
            process.crash("stopped to restore the storage")
        passed = cluster.storage.store.revision
        cluster.storage.restore(stage.kept(self.to_us))
        for process in stopped:
            process.start()
        kernel = cluster.kernel
        kernel.standing.begin(step, (STORAGE,))

        def look(_: object) -> None:
            """End the silence of the watches once the storage has passed what clients hold."""
            if cluster.storage.store.revision > passed:
                kernel.standing.end(step, (STORAGE,))
            else:
                kernel.call_later(SECOND, look)

        look(None)


def _check(context: Context, given: Storage) -> Action:
    if (given.how == "restore") != isinstance(given.to, str):
        text = "is missing" if given.how == "restore" else f"has no effect on {given.how!r}"
        raise context.error("to", f"'to' {text}", "it is the instant that 'restore' sets back to")
    if isinstance(given.to, str):
        if given.by is not UNSET or given.api_server is not UNSET:
            raise context.error("how", "'restore' has 'to' only")
        return RestoreStorage(Virtual(context.duration(given.to, "to")))
    by_us = delay_of(context, given.how, given.by, "slow")
    if isinstance(given.api_server, UnsetType):
        return StorageFault(given.how, by_us)
    if given.how not in OF_A_MEMBER:
        raise context.error("apiServer", f"{given.how!r} is a state of all members", "leave it out")
    return StorageFault(given.how, by_us, context.servers(given.api_server))


def _settle_space(ledger: Ledger, name: str) -> None:
    full = bool(ledger.values(name, "space"))
    with ledger.noted(name, "no-space", full):
        ledger.cluster.storage.full = full


def _settle_quorum(ledger: Ledger, name: str) -> None:
    lost = bool(ledger.values(name, "quorum"))
    with ledger.noted(name, "lost-quorum", lost):
        ledger.cluster.storage.set_quorum(not lost)


def _settle_disk(ledger: Ledger, name: str) -> None:
    delays = ledger.values(name, "disk")
    reason = f"by {format_duration(sum(delays))}" if delays else ""
    with ledger.noted(name, "slow-disk", bool(delays), reason):
        ledger.cluster.storage.extra_us = sum(delays)


FAULT = Fault(
    name="storage",
    parameters=Storage,
    check=_check,
    ends=Ends.LATER,
    documentation="""
The storage fails. `pause`: it answers nothing. `slow` (with `by`): each operation takes longer. `lost-quorum`: writes wait
7 s and fail, reads of the storage wait, watches of it end after 34 s, and API servers answer from their caches until then.
`no-space`: the quota of space is used up, and each write but a deletion fails at once ("etcdserver: mvcc: database space
exceeded"), while reads and watches work. `defragment`: as `pause`, and its end ends `no-space` too. `restore`: it has the
state and the revision of an earlier instant, and API servers start again; other processes hold newer versions, get no event
before the revision has passed these, and miss what changes until then, up to their next list or restart.""",
    example="""
- {at: 6m, storage: {how: slow, by: 300ms}, for: 1m}
- {at: 8m, storage: {how: lost-quorum}, for: 20s}
- {at: 8m, storage: {how: no-space}, for: 5m}
- {at: 9m, storage: {how: restore, to: 7m}}
- {at: 9m, storage: {how: defragment, apiServer: apiserver-1}, for: 10s}""",
    drawn="""
- {storage: {how: pause}, for: 1s..1m, values: {storage.how: [pause, lost-quorum, no-space]}}
- {storage: {how: slow}, for: 10s..5m, values: {storage.by: [20ms, 300ms, 3s]}}""",
    aspects=(
        Aspect("quorum", _settle_quorum, silences=True),
        Aspect("disk", _settle_disk, silences=False),
        Aspect("space", _settle_space, silences=True),
    ),
    happens={
        "lost-quorum": "has no quorum",
        f"{END_OF}lost-quorum": "has a quorum again",
        "no-space": "has no space left",
        f"{END_OF}no-space": "has space again",
        "slow-disk": "its disk becomes slow",
        f"{END_OF}slow-disk": "its disk is slow no more",
    },
)
