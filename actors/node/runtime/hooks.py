"""Hooks of containers: how long they run, and how they end.

Turns a container's `postStart` or `preStop` into that, by the commands that everybody knows.

Mirrors  pkg/kubelet/lifecycle/handlers.go: Run (v1.25).
Differs  other programs (also those of a script), requests over HTTP and a `postStart` that never ends take no time and succeed.
"""

from __future__ import annotations

from actors.node.runtime.commands import AT_ONCE_US, commanded
from sim.api.types import Obj
from sim.kernel.kernel import NEVER_US

FAILED = (
    'Exec lifecycle hook ([{command}]) for Container "{name}" in Pod "{pod}" failed - error: command \'{command}\' '
    'exited with {code}: , message: ""'
)


def hook_end(container: Obj, hook: str) -> tuple[int, int]:
    """After how many microseconds it ends, and its exit code."""
    known = commanded(((container.get("lifecycle") or {}).get(hook) or {}).get("exec") or {}, others_end=True)
    if known is None:
        return 0, 0
    took_us = int(known.get("exit_after_us", 0 if hook == "postStart" else NEVER_US))
    return 0 if took_us <= AT_ONCE_US else took_us, int(known.get("exit_code", 0))


def failure(pod: Obj, container: Obj, hook: str, code: int) -> str:
    """What is told of one that ended with this code."""
    meta, command = pod["metadata"], " ".join(container["lifecycle"][hook]["exec"]["command"])
    about = f"{meta['name']}_{meta['namespace']}({meta['uid']})"
    return FAILED.format(command=command, name=container["name"], pod=about, code=code)
