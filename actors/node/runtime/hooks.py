"""Hooks of containers: how long they run, and how they end.

Turns a container's `postStart` or `preStop` hook into its duration and exit code, if its command is
a well-known one.

Mirrors  pkg/kubelet/lifecycle/handlers.go: Run (v1.25).
Quirk: the validation lets a hook by TCP pass, and the agent has no handler for it.

Differs  other programs (also in a script), requests over HTTP of containers without simulated
         programs, and a `postStart` hook that never ends, take no time and succeed.
"""

from __future__ import annotations

from actors.node.runtime.commands import AT_ONCE_US, commanded
from sim.api.types import Obj
from sim.kernel.pace import NEVER_US
from sim.units import go_quote

FAILED = (
    'Exec lifecycle hook ([{command}]) for Container "{name}" in Pod "{pod}" failed - error: command \'{command}\' '
    "exited with {code}: {stderr}, message: {output}"
)
NOT_REACHED = (
    'HTTP lifecycle hook ({path}) for Container "{name}" in Pod "{pod}" failed - error: {error}, message: ""'
)
NOT_RUN = 'Exec lifecycle hook ([{command}]) for Container "{name}" in Pod "{pod}" failed - error: {error}, message: ""'


def hook_end(container: Obj, hook: str, late_us: int = 0) -> tuple[int, int]:
    """The duration of a hook in microseconds, and its exit code.

    late_us: how much longer it takes than its command
    """
    known = commanded(
        ((container.get("lifecycle") or {}).get(hook) or {}).get("exec") or {}, unknown_ends=True
    )
    if known is None:
        return (late_us if _answered(container, hook) else 0), 0
    duration_us = int(known.get("exit_after_us", 0 if hook == "postStart" else NEVER_US))
    duration_us = late_us + (0 if duration_us <= AT_ONCE_US else duration_us)
    return duration_us, int(known.get("exit_code", 0))


def _answered(container: Obj, hook: str) -> bool:
    """True if the container carries out a hook or answers it."""
    given = (container.get("lifecycle") or {}).get(hook) or {}
    return "exec" in given or ("httpGet" in given and not given["httpGet"].get("host"))


def words_of_hook(container: Obj, hook: str) -> tuple[str, ...]:
    """The command of a hook; empty if the hook is no command."""
    return tuple(
        (((container.get("lifecycle") or {}).get(hook) or {}).get("exec") or {}).get("command") or ()
    )


def cannot_run(container: Obj, hook: str) -> str:
    """The message about a hook for which there is no handler; "" for any other."""
    given = ((container.get("lifecycle") or {}).get(hook) or {}).get("tcpSocket")
    if given is None:
        return ""
    port = given.get("port") or 0
    shown = f"{{0 {port} }}" if isinstance(port, int) else f"{{1 0 {port}}}"
    host = given.get("host") or ""
    socket = f"&TCPSocketAction{{Port:{shown},Host:{host},}}"
    return (
        f"Cannot run handler: invalid handler: &LifecycleHandler{{Exec:nil,HTTPGet:nil,TCPSocket:{socket},}}"
    )


def not_reached(pod: Obj, container: Obj, hook: str, error: str) -> str:
    """The message about a hook by HTTP that got no answer."""
    meta, path = pod["metadata"], container["lifecycle"][hook]["httpGet"].get("path") or ""
    about = f"{meta['name']}_{meta['namespace']}({meta['uid']})"
    return NOT_REACHED.format(path=path, name=container["name"], pod=about, error=error)


def not_run(pod: Obj, container: Obj, hook: str, error: str) -> str:
    """The message about a hook with a command that the runtime could not start."""
    meta, command = pod["metadata"], " ".join(words_of_hook(container, hook))
    about = f"{meta['name']}_{meta['namespace']}({meta['uid']})"
    return NOT_RUN.format(command=command, name=container["name"], pod=about, error=error)


def failure(pod: Obj, container: Obj, hook: str, code: int, stdout: bytes = b"", stderr: bytes = b"") -> str:
    """The message about a hook that ended with this code, with what it has written."""
    meta, command = pod["metadata"], " ".join(container["lifecycle"][hook]["exec"]["command"])
    about = f"{meta['name']}_{meta['namespace']}({meta['uid']})"
    errors = stderr.decode(errors="replace")
    output = go_quote(stdout.decode(errors="replace") + errors)
    return FAILED.format(
        command=command, name=container["name"], pod=about, code=code, stderr=errors, output=output
    )
