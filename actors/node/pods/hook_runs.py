"""Hooks that take place: commands in containers, and requests over the network of pods.

Turns a hook of a container into its run, and the end of that into "" or upstream's message about
what went wrong.

Mirrors  pkg/kubelet/lifecycle/handlers.go: Run, runHTTPHandler (v1.25).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from actors.node.pods.ports import PodWorker
from actors.node.runtime.containers import Container
from actors.node.runtime.hooks import cannot_run, failure, not_reached, not_run, words_of_hook
from actors.node.runtime.probe_answers import port_of
from sim.api.types import Obj

if TYPE_CHECKING:
    from actors.node.runtime.pod_programs import Outcome


def _request(spec: Obj, hook: str) -> Obj | None:
    found: Obj | None = ((spec.get("lifecycle") or {}).get(hook) or {}).get("httpGet")
    return found


def hook_runs(worker: PodWorker, spec: Obj, container: Container, hook: str) -> bool:
    """True if `begin_hook` runs a hook; any other counts by its words (`runtime.hooks`).

    A request to the container itself needs a program that is simulated; one to another host is
    sent in any case.
    """
    if cannot_run(spec, hook):
        return True
    has_programs = worker.agent.machine.simulated_program(container) is not None
    given = _request(spec, hook)
    if given is None:
        return has_programs and bool(words_of_hook(spec, hook))
    is_sent = has_programs or (bool(given.get("host")) and worker.agent.machine.fabric is not None)
    return is_sent and port_of(spec, given.get("port") or 80) is not None


def begin_hook(
    worker: PodWorker, spec: Obj, container: Container, hook: str, then: Callable[[str], None]
) -> None:
    """Run a hook.  then: called once, later, with "" or the message about what went wrong"""
    agent, pod, runtime = worker.agent, worker.pod, worker.runtime
    assert runtime is not None
    refused = cannot_run(spec, hook)
    if refused:
        agent.ctx.call_later_us(0, then, refused)
        return
    programs, given = agent.machine.programs_of(runtime, agent.ctx.kernel), _request(spec, hook)
    if given is not None:
        from actors.node.programs.network.driving import Driven
        from actors.node.runtime.network_probes import network_hook

        kernel = agent.ctx.kernel
        steps = network_hook(programs.host_network(), spec, given, runtime.ip, lambda: kernel.now_us)
        assert steps is not None
        Driven(agent.ctx, steps, lambda error: then(error and not_reached(pod, spec, hook, error)))
        return

    def ended(outcome: Outcome) -> None:
        if outcome.error:
            then(not_run(pod, spec, hook, outcome.error))
        else:
            then(failure(pod, spec, hook, *outcome[:3]) if outcome.code else "")

    words = words_of_hook(spec, hook)

    def run(_: object = None) -> None:
        if container.ident not in programs.held:
            then("")
            return
        programs.command(container, words, lambda outcome: agent.ctx.call_later_us(0, ended, outcome))

    late_us = agent.spec.profile.late_us(pod, container.name)
    if late_us:
        agent.ctx.call_later_us(late_us, run)
    else:
        run()
