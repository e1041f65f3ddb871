"""The log of a node agent, in virtual time.

Holds: nothing is made of a message below the level of its file; an agent of which no one keeps the
log has none.

Mirrors  kubernetes v1.25 cmd/kubelet/app/server.go (the first message).
Differs  an agent logs its start, its registration, the changes of its pods, its events and errors;
         the lines in source files are those of one release, as far as they are known.
"""

from __future__ import annotations

from actors.node.runtime.machine import Machine
from sim.api.types import Obj
from sim.ident import Names
from sim.kernel.actor import Context
from sim.klog import Clocks, Klog, Output, Ref
from sim.options.groups.logs import LogFlags


def log_of(ctx: Context, machine: Machine, options: LogFlags, names: Names, version: str) -> Klog | None:
    """The log of an agent that starts; None if no one keeps it."""
    if machine.log is None:
        return None
    pid = 1000 + ctx.stream("log").randrange(30_000)
    log = klog_of(ctx, options, machine.log, names.node_agent, machine.spec.name, pid)
    where = f"{names.node_agent}/server.go:413"
    log.info(0, where, f"{names.node_agent.capitalize()} version", **{f"{names.node_agent}Version": version})
    return log


def klog_of(ctx: Context, options: LogFlags, output: Output, program: str, host: str, pid: int) -> Klog:
    """The log of one incarnation of a process in virtual time."""
    kernel, began_us = ctx.kernel, ctx.kernel.now_us
    clocks = Clocks(
        kernel.epoch_us + began_us,
        ctx.wall_us,
        lambda: kernel.now_us - began_us,
        lambda wait_us, then: ctx.call_later_us(wait_us, lambda _: then()),
    )
    log = Klog(options, output, clocks, program, host, pid)
    ctx.on_stop(log.flush)
    return log


def log_event(log: Klog, about: Obj, type_: str, reason: str, message: str) -> None:
    """Log an event that is recorded.  about: its object"""
    name = Ref(about.get("name", ""), about.get("namespace", ""))
    fields = {
        "object": name,
        "fieldPath": about.get("fieldPath", ""),
        "kind": about.get("kind", ""),
        "apiVersion": about.get("apiVersion", ""),
        "type": type_,
        "reason": reason,
        "message": message,
    }
    log.info(3, "record/event.go:294", "Event occurred", **fields)
