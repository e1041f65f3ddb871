"""Orrery: a whole container-orchestration cluster in virtual time, behind the real API.

This package is the front door of the library.  `from sim import Cluster, load, run_plan, served,
InputError` is all that programs and notebooks need; every other module is internal and may change.
`ARCHITECTURE.md` is the map of the packages below this one and of `actors`.

The names are imported when they are first used, so that `import sim` stays cheap and so that no
module of the package depends on the packages above it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from sim.version import __version__

if TYPE_CHECKING:
    from sim.app.cluster import Cluster
    from sim.app.hunt.hunting import hunt
    from sim.app.lab.lab import Lab
    from sim.app.run import run_plan
    from sim.app.serving.serve import served
    from sim.app.study.many import study
    from sim.errors import InputError
    from sim.scenario.compile import load

__all__ = ["Cluster", "InputError", "Lab", "__version__", "hunt", "load", "run_plan", "served", "study"]

_HOMES = {
    "Cluster": "sim.app.cluster",
    "InputError": "sim.errors",
    "Lab": "sim.app.lab.lab",
    "hunt": "sim.app.hunt.hunting",
    "load": "sim.scenario.compile",
    "run_plan": "sim.app.run",
    "served": "sim.app.serving.serve",
    "study": "sim.app.study.many",
}


def __getattr__(name: str) -> object:
    """Import a public name from its home."""
    if name not in _HOMES:
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}; public names: {', '.join(__all__)}"
        )
    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
