"""Orrery: a whole container-orchestration cluster in virtual time, behind the real API.

`from orrery import Cluster, load, run_plan, served, InputError` is all that programs and notebooks
need.  The names are those of the package `sim`, which holds them; each is imported when it is first
used, so that `import orrery` stays cheap.  `python -m orrery` is the command `orrery`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sim
from sim import __version__

if TYPE_CHECKING:
    from sim import Cluster, InputError, Lab, hunt, load, run_plan, served, study

__all__ = ["Cluster", "InputError", "Lab", "__version__", "hunt", "load", "run_plan", "served", "study"]


def __getattr__(name: str) -> object:
    """Return a public name of `sim`."""
    if name not in __all__:
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}; public names: {', '.join(__all__)}"
        )
    return getattr(sim, name)


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
