"""Hooks of containers: how long they run, and how they end.

Turns a container's `postStart` or `preStop` hook into its duration and exit code, if its command is
a well-known one.

Mirrors  pkg/kubelet/lifecycle/handlers.go: Run (v1.25).
Differs  other programs (also in a script), requests over HTTP, and a `postStart` hook that never
         ends, take no time and succeed.
"""

from __future__ import annotations

from actors.node.runtime.commands import AT_ONCE_US, commanded
from sim.api.types import Obj
from sim.kernel.pace import NEVER_US

FAILED = (
    'Exec lifecycle hook ([{command}]) for Container "{name}" in Pod "{pod}" failed - error: command \'{command}\' '
    'exited with {code}: , message: ""'
)


def hook_end(container: Obj, hook: str) -> tuple[int, int]:
    """The duration of a hook in microseconds, and its exit code."""
    known = commanded(
        ((container.get("lifecycle") or {}).get(hook) or {}).get("exec") or {}, unknown_ends=True
    )
    if known is None:
        return 0, 0
    duration_us = int(known.get("exit_after_us", 0 if hook == "postStart" else NEVER_US))
    return 0 if duration_us <= AT_ONCE_US else duration_us, int(known.get("exit_code", 0))


def failure(pod: Obj, container: Obj, hook: str, code: int) -> str:
    """The message about a hook that ended with this code."""
    meta, command = pod["metadata"], " ".join(container["lifecycle"][hook]["exec"]["command"])
    about = f"{meta['name']}_{meta['namespace']}({meta['uid']})"
    return FAILED.format(command=command, name=container["name"], pod=about, code=code)
