"""A process in a running container, for a client or a probe.

Turns the words of a command into a process, or into the runtime's error.

Mirrors  containerd pkg/cri/server/container_execsync.go: execInternal (v1.6); runc exec.
Differs  in a container that had no processes before, a command sees of the variables only those
         that its spec states as values.
"""

from __future__ import annotations

from collections.abc import Mapping

from actors.node.pods.worker import Worker
from actors.node.programs.ends import End
from actors.node.programs.lookup import NotRunnable
from actors.node.programs.process import NoProcess, Process
from actors.node.runtime.containers import Container
from actors.node.runtime.pod_programs import not_executed, reason_of


class CannotStart(Exception):
    """The runtime has not started a process; the message is its error."""


def start_process(
    worker: Worker, container: Container, words: tuple[str, ...], ends: Mapping[int, End], *, terminal: bool
) -> Process:
    """Start a process in a container.  Raises CannotStart, and closes the ends."""
    machine, runtime = worker.agent.machine, worker.runtime
    if runtime is not None and machine.running_program(container) is None:
        from actors.node.pods.launch import start_idle

        start_idle(worker, container)
    if runtime is None or machine.running_program(container) is None or not words:
        for end in ends.values():
            end.close()
        raise CannotStart(not_executed(container, words, "executable file not found in $PATH"))
    programs = machine.programs_of(runtime, worker.agent.ctx.kernel)
    try:
        return programs.execute(container, words, ends, {"TERM": "xterm"} if terminal else None)
    except NotRunnable as error:
        raise CannotStart(not_executed(container, words, reason_of(error, words[0]))) from None
    except NoProcess:
        why = "fork: resource temporarily unavailable"
        raise CannotStart(not_executed(container, words, why)) from None
