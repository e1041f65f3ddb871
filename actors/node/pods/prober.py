"""Probes of one node's containers: a ticker per probe that runs only while it can change something.

Turns container health into results (`Success`, `Failure`), and changes of results into calls of the agent.

Holds: a probe whose result agrees with its container's health, and whose container will not change by itself,
schedules nothing; its ticks stay where a ticker that never slept would have put them.

Mirrors  pkg/kubelet/prober/{worker,prober_manager}.go: one ticker from the first sync on, thresholds, initial delay
         in whole seconds, holds after a liveness or startup failure until a new container id (v1.25).  An instance is
         known by the status that tells of it, and what the first look at it begins with is told like any result.
Differs  probes take no time; a probe's success is asked of the runtime model, whatever its handler.
"""

from __future__ import annotations

from typing import Protocol

from actors.node.causes import caused
from actors.node.runtime.machine import Container, PodRuntime
from sim.api.memo import IdentityMemo
from sim.api.types import Obj
from sim.kernel.actor import Context
from sim.kernel.timer import Timer
from sim.units import SECOND

KINDS = (("startupProbe", "Startup"), ("readinessProbe", "Readiness"), ("livenessProbe", "Liveness"))
# What the first look at an instance begins with; before it there is no result, which nobody could tell from a success.
UNSEEN = ""
INITIAL = {"Startup": "Unknown", "Readiness": "Failure", "Liveness": "Success"}
BEFORE = {"Startup": UNSEEN, "Readiness": UNSEEN, "Liveness": "Success"}


# Pods of a template share their containers.
_SPECS: IdentityMemo[tuple[tuple[str, str, Obj], ...]] = IdentityMemo()


def probe_specs(containers: list[Obj]) -> tuple[tuple[str, str, Obj], ...]:
    """(kind, container name, probe) of all probes."""
    known = _SPECS.get(containers)
    if known is None:
        rows = [(kind, c["name"], c[key]) for c in containers for key, kind in KINDS if c.get(key)]
        known = _SPECS.put(tuple(rows), containers)
    return known


def output_of(probe: Obj, container: Obj, ip: str) -> str:
    """What a probe that fails has to say of it."""
    if "httpGet" in probe:
        return "HTTP probe failed with statuscode: 500"
    if "grpc" in probe:
        return 'service unhealthy (responded with "NOT_SERVING")'
    if "tcpSocket" in probe:
        port = probe["tcpSocket"]["port"]
        named = [p["containerPort"] for p in container.get("ports") or () if p.get("name") == port]
        host = probe["tcpSocket"].get("host") or ip
        return f"dial tcp {host}:{named[0] if named else port}: connect: connection refused"
    return "command failed"


class Owner(Protocol):
    """What a probe needs of its pod worker."""

    runtime: PodRuntime | None

    def probed(self, probe: Probe, result: str) -> None:
        """The result changed."""
        ...

    def began(self, probe: Probe) -> None:
        """It looks at an instance for the first time, which counts as not ready, or as not started, now."""
        ...

    def looked(self) -> None:
        """The first look at an instance is over."""
        ...

    def unhealthy(self, probe: Probe) -> None:
        """A probe failed (event Unhealthy)."""
        ...

    def blamed(self, container: Container) -> int:
        """The record of the fault by which it fails its probes, if that is not what led here."""
        ...

    def may_probe(self, probe: Probe) -> bool:
        """Whether the container is told of as started, for the probes that wait for that; for the startup probe, whether not."""
        ...

    def is_over(self) -> bool:
        """Whether the pod's status says that it has failed or succeeded, whatever of it still runs."""
        ...

    def tells_end(self, container: str) -> bool:
        """Whether the pod's status says of the container that it does not run."""
        ...


class Probe:
    """One probe of one container.  `spec` holds periodSeconds, thresholds and so on."""

    __slots__ = (
        "_asked", "_ctx", "_first_us", "_ident", "_owner", "_run", "_saw", "_timer", "container", "hold", "kind",
        "result", "spec", "stopped",
    )  # fmt: skip

    def __init__(self, ctx: Context, owner: Owner, kind: str, container: str, spec: Obj) -> None:
        self._ctx = ctx
        self._owner = owner
        self.kind = kind
        self.container = container
        self.spec = spec
        self.result = BEFORE[kind]
        self.hold = False
        self.stopped = False
        self._asked = False  # somebody asked for a look before the first tick
        self._ident = ""
        self._run = 0
        self._saw: bool | None = None
        self._first_us = ctx.now_us()
        self._timer: Timer | None = None

    @property
    def _period_us(self) -> int:
        return int(self.spec.get("periodSeconds") or 10) * SECOND

    def start(self, wait_us: int) -> None:
        """Tick for the first time after `wait_us` (a restarted agent spreads its probes)."""
        self._first_us += wait_us
        self._tick_at(self._first_us)

    def stop(self) -> None:
        self.stopped = True
        self._cancel()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick_at(self, at_us: int) -> None:
        """Of the own clock, as every time of a tick here."""
        self._cancel()
        self._timer = self._ctx.timer_us(max(0, at_us - self._ctx.now_us()), self._tick)

    def _age_us(self, container: Container) -> int:
        """How long ago it started, by the wall clock.  Quirk: as its status tells that, in whole seconds."""
        since_us = self._ctx.said_us(container.started_us)
        return self._ctx.wall_us() - since_us + since_us % SECOND

    @property
    def _delay_us(self) -> int:
        """The age at which it begins.  Quirk: none is one, too, where a clock has been set back (its seconds are cut off)."""
        return int(self.spec.get("initialDelaySeconds") or 0) * SECOND or 1 - SECOND

    def _next_tick_us(self, after_us: int) -> int:
        """The first tick strictly after that instant."""
        period_us = self._period_us
        if after_us < self._first_us:
            return self._first_us
        return after_us + period_us - (after_us - self._first_us) % period_us

    def _tick(self, _: object) -> None:
        self._timer = None
        self.check()
        if self._asked:
            self._asked = False
            self.check()

    def check(self) -> None:
        """Probe now, then decide when the next probe can matter.

        Quirk: before its first tick a probe does nothing, but has not forgotten then that it was asked to.
        """
        now_us = self._ctx.kernel.now_us
        if self.stopped:
            return
        if self._owner.is_over():
            self.stop()
            return
        container = self._current()
        if self._ctx.now_us() < self._first_us:
            self._asked = True
            self._plan(container, now_us)
            return
        if container is not None:
            # Quirk: as its status was before the first look at it, by which it may be told not to have started.
            may = self._owner.may_probe(self)
            first = self.result == UNSEEN
            if first:
                self.result = INITIAL[self.kind]
                self._owner.began(self)
            self._probe(container, now_us, may)
            if first:
                self._owner.looked()
        if not self.stopped:
            self._plan(container, now_us)

    def refresh(self) -> None:
        """The status tells of the container's newest instance from now on: its result starts afresh.

        Quirk: what was counted of the last instance counts on.
        """
        newest = self._newest()
        if newest is not None and newest.ident != self._ident:
            self._ident = newest.ident
            self.result = BEFORE[self.kind]
            self.hold = False

    def look(self) -> None:
        """The container's health may have changed: make sure the next tick that matters is planned."""
        if not self.stopped:
            self._plan(self._current(), self._ctx.kernel.now_us)

    def _newest(self) -> Container | None:
        runtime = self._owner.runtime
        return runtime.newest(self.container) if runtime is not None else None

    def _current(self) -> Container | None:
        """The instance that the status tells of; None if it tells of none, or that one is gone."""
        newest = self._newest()
        if newest is None or newest.ident == self._ident:
            return newest
        runtime = self._owner.runtime
        told = runtime.instances(self.container) if runtime is not None else ()
        return next((one for one in told if one.ident == self._ident), None)

    def _set(self, result: str) -> None:
        if result != self.result:
            self.result = result
            self._owner.probed(self, result)

    def _probe(self, container: Container, now_us: int, may: bool) -> None:
        if self.hold:
            return
        if not container.running(now_us):
            if self._owner.tells_end(self.container):
                # Quirk: by which the pod is synced, and its next try to start waits anew.
                self._set("Failure")
                return
            if "exec" in self.spec:
                return  # nothing can be run in it, which counts neither way
        if self._age_us(container) < self._delay_us:
            return
        if not may:
            return
        # Quirk: whoever answers at its address is taken for it, also one that nobody has told of yet.
        container = self._newest() or container
        healthy = container.healthy(now_us)
        self._run = self._run + 1 if healthy is self._saw else 1
        self._saw = healthy
        if healthy:
            self._count(True)
        else:
            with caused(self._ctx.kernel, self._owner.blamed(container)):
                self._owner.unhealthy(self)
                self._count(False)

    def _count(self, healthy: bool) -> None:
        """Enough alike in a row are the result."""
        threshold = int(
            self.spec.get("successThreshold" if healthy else "failureThreshold") or (1 if healthy else 3)
        )
        if self._run < threshold:
            return
        if not healthy and self.kind != "Readiness":
            self.hold = True
            self._run = 0
        self._set("Success" if healthy else "Failure")

    def _plan(self, container: Container | None, now_us: int) -> None:
        """Sleep while nothing can change; else until the first tick that can.  One that is due now, but has not come yet, plans anew."""
        if self._timer is not None and self._timer.at_us <= now_us:
            return
        if container is None or self.hold:
            self._cancel()  # a sync of the pod looks again
            return
        clock, local_us = self._ctx.clock, self._ctx.now_us()
        if not container.running(now_us):
            if self.result != "Failure" or not self._owner.tells_end(self.container):
                self._tick_at(self._next_tick_us(local_us))
            else:
                self._cancel()
            return
        if self.result == UNSEEN:
            self._tick_at(self._next_tick_us(local_us))
            return
        delay_us, age_us = self._delay_us, self._age_us(container)
        if age_us < delay_us:
            self._tick_at(self._next_tick_us(local_us + delay_us - age_us - 1))
            return
        if not self._owner.may_probe(self):
            self._cancel()
            return
        done = self.kind == "Startup" and self.result == "Success"
        settled = container.healthy(now_us) and self.result == "Success" and self._saw is not False
        if not settled and not done:
            self._tick_at(self._next_tick_us(local_us))
            return
        change_us = container.next_change_us(now_us)
        if change_us is None or done:
            self._cancel()
        else:
            # several instants are one by a slow clock, and the change may be the last of them
            self._tick_at(self._next_tick_us(clock.read_us(change_us) - (clock.drift_ppm >= 0)))
