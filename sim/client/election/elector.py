"""Leader election over a Lease: at most one of several candidates leads at a time.

Turns what is stored in the Lease and this candidate's own clock into create, update, wait, lead or
stop; the decision is `decide`, over plain values, and the moves are those of `TRANSITIONS`.

Holds: a candidate never compares its clock with a time written by another candidate, only with the
time at which it first read the present record; a try decides by, and writes, the time of its start,
however long its read takes; a conflicting write is a failed try; a leader that cannot renew stops
leading `renew_deadline_us` after the round began, which is before another candidate may take over
if that time and a retry period are shorter than a lease (as upstream, the options need not be so).

Mirrors  client-go v1.25 tools/leaderelection/leaderelection.go, resourcelock/leaselock.go.
Quirk    a candidate that could not read its lease at the last try has nothing to release, even if
         its options request a release.
Differs  the leader's work ends before it releases its lease (upstream continues the work during the
         release, up to half a renew deadline, in which another candidate may begin to lead); a
         leader that is stopped during an undisturbed renewal waits for its end, some milliseconds,
         and releases the result (upstream cancels the request and may have nothing to release);
         the end of leadership emits no event (upstream passes one to a recorder of a process that
         is about to end, and the event is never sent).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from operator import methodcaller
from typing import TYPE_CHECKING, Any

from sim.api.schema.typed_objects import LeaseSpec
from sim.api.store import Item
from sim.api.types import Obj, Reply, Request
from sim.client.client import Client, OnReply
from sim.client.election.record import Observed, claimed, decide, holder_of, record_of, released
from sim.client.election.states import (
    ACQUIRING,
    ENDED,
    HOLDING,
    RELEASING,
    RENEWING,
    RETRYING,
    STEPPING_DOWN,
    TRANSITIONS,
    WAITING,
    Attempt,
    ElectionState,
    LeaseState,
    OnTried,
    Pause,
    PlannedRenewal,
    Round,
    Then,
)
from sim.dataclass import dataclass
from sim.kernel import NEVER_US, Context, Future
from sim.kernel.network import Purpose
from sim.options.groups.election import ElectionFlags
from sim.units import parse_time

if TYPE_CHECKING:
    from sim.client.events.recorder import EventRecorder

LOOK = methodcaller("look")  # reads the lease through the server's fast path
JITTER = 1.2  # leaderelection.go JitterFactor
HEALTH_TOLERANCE_US = 20_000_000  # HealthzAdaptor of the daemons: leaseDuration + 20 s


@dataclass(frozen=True, slots=True)
class ElectionOptions:
    """Defaults of the daemons (component-base leader election defaults)."""

    lease_duration_us: int = 15_000_000
    renew_deadline_us: int = 10_000_000
    retry_period_us: int = 2_000_000
    release_on_cancel: bool = False
    # Kind of the lock object; see `multilock` for kinds other than Lease.
    resource_lock: str = "leases"

    @classmethod
    def of(cls, flags: ElectionFlags, resource_lock: str, release_on_cancel: bool = False) -> ElectionOptions:
        """The options of a daemon for one of its locks."""
        return cls(
            flags.leader_elect_lease_duration_us,
            flags.leader_elect_renew_deadline_us,
            flags.leader_elect_retry_period_us,
            release_on_cancel,
            resource_lock,
        )

    def __post_init__(self) -> None:
        assert self.lease_duration_us > self.renew_deadline_us > JITTER * self.retry_period_us > 0

    @property
    def timeout_us(self) -> int:
        """Timeout of each request: half the renew deadline, at least one second."""
        return max(1_000_000, self.renew_deadline_us // 2)


class LeaderElector:
    """One candidate for leadership.

    lease: namespace and name of the Lease
    on_new_leader: called with the identity of the leader whenever it changes
    """

    def __init__(
        self,
        ctx: Context,
        client: Client,
        lease: tuple[str, str],
        identity: str,
        options: ElectionOptions | None = None,
        on_new_leader: Callable[[str], None] | None = None,
    ) -> None:
        self.identity = identity
        self._ctx = ctx
        self._client = client
        self._lease = lease
        self._options = options if options is not None else ElectionOptions()
        self._calls = client.exchanges("leases", lease[1], lease[0], purpose=Purpose.ELECTION)
        self._random = ctx.stream("leader-election")
        self._state: ElectionState = TRANSITIONS.start
        self._observed = Observed({}, 0)
        self._lease_state = LeaseState()
        self._stop_cause: int | None = None  # the trace record that caused the stop; None before it
        # The present phase: its result is True once leading, and False when leadership ends.
        self._over: Future | None = None
        self._planned: PlannedRenewal | None = None
        self._attempt = Attempt(self._acquired, 0, 0, 0)
        self._pause: Pause | None = None
        self._refusal = ""  # the last reply's message, if it refused the lease
        self._on_new_leader = on_new_leader

    @property
    def leader(self) -> str:
        """The identity that this candidate believes to be the leader ("": none)."""
        return holder_of(self._observed.spec)

    @property
    def leading(self) -> bool:
        """True while this candidate believes to be the leader."""
        return self.leader == self.identity

    @property
    def healthy(self) -> bool:
        """False if this process leads but has not renewed for too long: its liveness check fails."""
        late_us = self._ctx.now_us() - self._observed.at_us
        return not self.leading or late_us <= self._options.lease_duration_us + HEALTH_TOLERANCE_US

    @property
    def _has_read(self) -> bool:
        """True if the last read succeeded: otherwise there is nothing to release (leaselock.go: a
        failed read leaves no record).
        """
        return self._lease_state.lease is not None

    @property
    def _asks(self) -> bool:
        """True during a try, False during the pause after one."""
        return self._state is ACQUIRING or self._state is RENEWING

    @property
    def _stopping(self) -> bool:
        return self._stop_cause is not None

    def _move(self, state: ElectionState) -> None:
        self._state = TRANSITIONS.move(self._state, state)

    def stop(self) -> None:
        """Cancel: `run` returns soon, and releases the lease first if the options request it."""
        self._stop_cause = self._ctx.kernel.cause
        if self._planned is not None and not self._calls.over():
            self._calls.plan()  # the plan ends the try, and so the pause
            return
        self._planned = None
        if (pause := self._end_pause()) is not None:
            self._attempt.abandoned = True
            self._ctx.call_later_us(0, pause.then)
        elif self._asks:
            self._abandon()
            self._ctx.call_later_us(0, self._fail)

    def _fail(self, _: Any) -> None:
        """End the abandoned try, unless its round has ended at the same instant."""
        if self._asks:
            self._attempt.tried(False)

    def announce(self, recorder: EventRecorder) -> None:
        """Record an event that this candidate has become leader for each object that holds the
        record.
        """
        for lock in self._locks():
            recorder.event(lock, "Normal", "LeaderElection", f"{self.identity} became leader")

    def _locks(self) -> list[Obj]:
        assert self._lease_state.lease is not None
        kind = self._client.scheme.resource("leases")
        return [{**self._lease_state.lease, "apiVersion": kind.api_version, "kind": kind.kind}]

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Become leader, run `lead` as a task, and return when leadership is lost or `stop` has
        been called.
        """
        if not await self._phase("leadership", self._acquire):
            return
        task = self._ctx.spawn(lead, name="lead")
        if await self._phase("the end of leadership", self._renew):
            self._note("lost-lease", self._ctx.name)
        if task.trio_task is not None:
            self._ctx.kernel.cancel(task)
        if self._options.release_on_cancel and self.leading and self._has_read:
            self._move(RELEASING)
            await self._release()
        self._move(ENDED)

    async def _phase(self, why: str, begin: Then) -> bool:
        """Run one phase: `begin` and the callbacks that follow from it, until `_end` is called."""
        self._over = self._ctx.future(why)
        begin(None)
        outcome = bool(await self._over.wait())
        if self._stopping:  # the stop may come between two callbacks, too
            self._ctx.kernel.follow(self._stop_cause or self._ctx.kernel.cause)
        return outcome

    def _end(self, outcome: bool, state: ElectionState) -> None:
        assert self._over is not None
        self._move(state)
        self._over.set(outcome)

    def _acquire(self, _: Any) -> None:
        """Try at once and then after each pause of the retry period x (1..2.2), until a try
        succeeds (True) or `stop` is called (False).
        """
        if self._stopping:
            self._end(False, ENDED)
        else:
            self._move(ACQUIRING)
            # No limit for the try: each request has its own timeout.
            self._try(NEVER_US, self._acquired)

    def _acquired(self, done: bool) -> None:
        if done:
            self._end(True, HOLDING)
            return
        stretched = self._options.retry_period_us * (1 + JITTER * self._random.random())
        self._wait(int(stretched), self._acquire, WAITING)

    def _renew(self, _: Any) -> None:
        """One round: try at once and then at each tick of the retry period, for renew_deadline at
        most.

        The phase ends with True if a round failed, with False after `stop`.
        """
        if self._stopping:
            self._end(False, STEPPING_DOWN)
            return
        self._move(RENEWING)
        limit_us = self._options.renew_deadline_us
        self._try(limit_us, self._renewed, Round(self._ctx.now_us() + limit_us))

    def _renewed(self, done: bool) -> None:
        period_us = self._options.retry_period_us
        if done:
            self._wait(period_us, self._renew, HOLDING)
            return
        present = self._attempt.round
        assert present is not None
        now_us = self._ctx.now_us()
        present.ticking_us = now_us if present.ticking_us < 0 else present.ticking_us
        self._guard()
        tick_us = now_us + period_us - (now_us - present.ticking_us) % period_us
        self._wait(min(tick_us, present.ends_us) - now_us, self._renew_again, RETRYING)

    def _renew_again(self, _: Any) -> None:
        present = self._attempt.round
        assert present is not None
        left_us = present.ends_us - self._ctx.now_us()
        if self._stopping or left_us <= 0:
            self._end(True, STEPPING_DOWN)
        else:
            self._move(RENEWING)
            self._try(left_us, self._renewed, present)

    def _guard(self) -> None:
        """End this round in time, even if its request gets no reply."""
        present = self._attempt.round
        if present is not None and not present.guarded:
            present.guarded = True
            kernel, left_us = self._ctx.kernel, max(0, present.ends_us - self._ctx.now_us())
            kernel.call_at(kernel.now_us + self._ctx.clock.real_us(left_us), self._check_time, present)

    def _check_time(self, guarded: Round) -> None:
        """End the round unless it is over; if it is over there is nothing to do, which costs a slow
        process no time.
        """
        if guarded is self._attempt.round and self._asks:
            self._ctx.run(self._out_of_time, guarded)

    def _out_of_time(self, guarded: Round) -> None:
        if guarded is self._attempt.round and self._asks:
            self._abandon()
            self._end(True, STEPPING_DOWN)

    def _abandon(self) -> None:
        """Ignore the reply to the request under way."""
        self._attempt.abandoned = True
        if self._attempt.reads:
            self._lose_read()

    def _lose_read(self) -> None:
        self._lease_state.lease = None

    def _wait(self, duration_us: int, then: Then, state: ElectionState) -> None:
        """Continue with `then` after this time, or when `stop` is called."""
        self._move(state)
        if self._stopping:
            then(None)
        else:
            self._sleep(max(0, duration_us), then)

    def _sleep(self, duration_us: int, then: Then) -> None:
        self._pause = pause = Pause(then)
        pause.timer = self._ctx.timer_us(duration_us, self._wake, pause)

    def _end_pause(self) -> Pause | None:
        """End the present pause early, and return it; None if there is none."""
        pause, self._pause = self._pause, None
        if pause is not None and pause.timer is not None:
            pause.timer.cancel()
        return pause

    def _wake(self, pause: Pause) -> None:
        if pause is not self._pause:
            return  # the pause ended while this process was paused
        if self._planned is not None and not self._calls.over():
            return  # the reply is awaited after all
        self._planned = None
        self._pause = None
        pause.then(None)

    # --- one try ----------------------------------------------------------------------------------

    def _try(self, limit_us: int, tried: OnTried, present: Round | None = None) -> None:
        """Read the record and write this candidate into it if it may, within `limit_us`; `tried` is
        called with the success.

        present: the round of renewals that the try belongs to
        """
        self._begin_try(limit_us, tried, present)
        if present is not None and self._left_us() > 0:
            self._read_and_renew()
        else:
            self._ask(self._request_read, self._read, LOOK, reads=True)

    def _begin_try(self, limit_us: int, tried: OnTried, present: Round | None = None) -> None:
        now_us = self._ctx.now_us()
        self._attempt = Attempt(tried, now_us, self._ctx.wall_us(), now_us + limit_us, present)

    def _read_and_renew(self) -> None:
        """Read the record and renew its time, if this candidate holds it."""
        kernel_us = self._ctx.kernel.now_us - self._ctx.now_us()
        if not self._calls.read_modify_write(
            (LOOK, self._request_read, self._awaited(self._read)),
            self._compose,
            (self._renew_lease, self._request_write, self._awaited(self._wrote)),
            self._renewed_at,
            self._options.timeout_us,
            self._attempt.ends_us + kernel_us,
            self._undo,
        ):
            self._attempt.reads = True

    def _undo(self) -> None:
        """Restore the state before the read, because the call continues with the read unanswered."""
        assert self._planned is not None
        self._lease_state, self._planned = self._planned.replaced, None

    def _compose(self, held: Item, at_us: int) -> bool:
        """Do what `_read` and `_write` do, at that time of the kernel's clock."""
        lease, ctx = held.obj, self._ctx
        spec = lease["spec"]
        if holder_of(spec) != self.identity:
            return False
        form, observed = record_of(spec), self._observed
        if observed.form != form:
            observed = Observed(spec, ctx.now_us() + at_us - ctx.kernel.now_us, form)
        self._planned = PlannedRenewal(observed, self._lease_state)
        wall_us = self._attempt.wall_us
        written = claimed(spec, self.identity, self._options.lease_duration_us, wall_us)
        self._lease_state = LeaseState(held, lease, written, wall_us)
        return True

    def _renewed_at(self, item: Item, at_us: int) -> None:
        """The renewal is committed and its reply arrives at `at_us`: plan the next round now."""
        assert self._planned is not None
        state = self._lease_state
        state.lease = item.obj
        wait_us = at_us - self._ctx.kernel.now_us
        self._observed = Observed(state.written, self._ctx.now_us() + wait_us, self._planned.observed.form)
        self._move(HOLDING)
        self._sleep(wait_us + self._options.retry_period_us, self._renew)

    def _request_read(self) -> Request:
        self._guard()  # the timeout was skipped for a call expected to end at once
        namespace, name = self._lease
        return self._client.request("get", "leases", namespace, name, purpose=Purpose.ELECTION)

    def _read(self, reply: Reply) -> None:
        self._planned = None
        state = self._lease_state
        if not reply.ok:
            state.lease = None
            if reply.reason == "NotFound":
                self._create()
            else:
                self._attempt.tried(False)
            return
        state.item = reply.item
        state.lease = lease = reply.obj
        spec: LeaseSpec = lease.get("spec") or {}
        self._weigh(spec, record_of(spec))

    def _weigh(self, spec: LeaseSpec, form: Any) -> None:
        """Decide by the record that was read; `form`: its form for comparison with the previous
        read.
        """
        if self._observed.form != form:
            self._observe(spec, form)
        options, ctx, attempt = self._options, self._ctx, self._attempt
        if not decide(self._observed, self.identity, options.lease_duration_us, attempt.begun_us):
            attempt.tried(False)
            return
        holder = holder_of(self._observed.spec)
        if holder not in ("", self.identity):
            self._note("take-over", holder.partition("_")[0], holder)
        elif not holder and (item := self._lease_state.item) is not None and item.cause:
            ctx.kernel.follow(item.cause)  # the previous leader released it
        self._write(claimed(spec, self.identity, options.lease_duration_us, attempt.wall_us))

    def _create(self) -> None:
        spec = claimed({}, self.identity, self._options.lease_duration_us, self._attempt.wall_us)
        spec["leaseTransitions"] = 0
        self._create_record(spec)

    def _create_record(self, spec: LeaseSpec) -> None:
        self._create_lease(spec)

    def _create_lease(self, spec: LeaseSpec) -> None:
        namespace, name = self._lease
        api_version = self._client.scheme.resource("leases").api_version
        lease = {
            "kind": "Lease",
            "apiVersion": api_version,
            "metadata": {"name": name, "namespace": namespace},
            "spec": spec,
        }
        self._lease_state.written = spec
        self._ask(lambda: self._client.request("create", "leases", namespace, body=lease), self._wrote)

    def _write(self, spec: LeaseSpec) -> None:
        state = self._lease_state
        state.written, state.written_us = spec, self._attempt.wall_us
        renews = holder_of(spec) == self.identity
        self._ask(self._request_write, self._wrote, self._renew_lease if renews else None)

    def _request_write(self) -> Request:
        self._guard()
        state = self._lease_state
        assert state.lease is not None
        namespace, name = self._lease
        return self._client.request(
            "update",
            "leases",
            namespace,
            name,
            body={**state.lease, "spec": state.written},
            purpose=Purpose.ELECTION,
        )

    def _renew_lease(self, way: Any) -> tuple[Item, int] | None:
        """Renew through the server's fast path, if nothing but the time is new."""
        served: tuple[Item, int] | None = None
        state = self._lease_state
        if state.item is not None:
            served = way.renew(state.item, state.written, state.written_us)
        return served

    def _wrote(self, reply: Reply) -> None:
        planned, self._planned = self._planned, None
        if planned is not None:  # the state before this reply
            self._observed = planned.observed
        if self._end_pause() is not None:
            self._move(RENEWING)
        if reply.ok:
            self._lease_state.lease = reply.obj
            self._observe(self._lease_state.written, self._observed.form)
        self._attempt.tried(reply.ok)

    async def _release(self) -> None:
        done = self._ctx.future("the release of the lease")
        self._begin_try(self._options.timeout_us, done.set)
        self._write(released(self._observed.spec, self._attempt.wall_us))
        await done.wait()

    def _observe(self, spec: LeaseSpec, form: Any) -> None:
        before = self.leader
        self._observed = Observed(spec, self._ctx.now_us(), form)
        if self._on_new_leader is not None and self.leader != before:
            self._on_new_leader(self.leader)

    def _note(self, what: str, silent: str, holder: str = "") -> None:
        """Record the decision; its cause is the fault that kept the host `silent` from renewing or,
        if there is none, the write of the record.
        """
        ctx, since_us = self._ctx, self._observed.at_us
        why = {"silent_us": ctx.now_us() - since_us, "holder": holder}
        renewed = self._observed.spec.get("renewTime")
        if renewed:  # by the clock of its holder, perhaps long before this candidate read it
            since_us = min(since_us, ctx.now_us() - (ctx.wall_us() - parse_time(renewed)))
        item = self._lease_state.item
        cause = 0 if item is None else item.cause
        # An elector's identity is its host name and a suffix after "_"; an identity without "_" was
        # written by hand, so no fault of a host kept its holder from renewing.
        if "_" in holder_of(self._observed.spec) or not cause:
            cause = ctx.silence(silent, since_us) or cause
        ctx.decided(what, "leases/" + "/".join(self._lease), why, cause)

    def _ask(
        self,
        request: Callable[[], Request],
        on_reply: OnReply,
        serve: Callable[[Any], tuple[Item, int] | None] | None = None,
        reads: bool = False,
    ) -> None:
        self._attempt.reads = reads
        left_us = self._left_us()
        if left_us <= 0:
            on_reply(Reply(0, lost="Timeout"))
            return
        if serve is None:
            self._guard()  # a server at its limit of requests in flight makes the client retry
        self._calls.call(serve, request, self._awaited(on_reply), left_us)

    def _left_us(self) -> int:
        """The time that a request of the present try may take."""
        return min(self._attempt.ends_us - self._ctx.now_us(), self._options.timeout_us)

    def _awaited(self, on_reply: OnReply) -> OnReply:
        attempt = self._attempt

        def take(reply: Reply) -> None:
            if not attempt.abandoned:
                self._note_refusal(reply)
                on_reply(reply)

        return take

    def _note_refusal(self, reply: Reply) -> None:
        """Record that the API refuses this candidate the lease, once for each reason in a row."""
        refusal = reply.message if reply.reason == "Forbidden" else ""
        if refusal and refusal != self._refusal:
            target = "leases/" + "/".join(self._lease)
            self._ctx.decided("refused-lease", target, {"message": refusal})
        self._refusal = refusal
