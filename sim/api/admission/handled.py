"""Which operations each admission plugin handles in which pass, for its metrics.

A plugin counts for every request with such an operation, of any resource, since upstream
measures the call of a plugin and not what it decides.

Mirrors  kubernetes v1.25 plugin/pkg/admission/*/admission.go (NewHandler, and which interfaces each
         plugin has), pkg/admission/{chain.go,metrics/metrics.go}.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from sim.api.admission.base import Operation
from sim.api.admission.chain import OPERATIONS, PLUGINS

Pass = Literal["admit", "validate"]
ADMIT: Final = "admit"
VALIDATE: Final = "validate"


def handlers(running: Iterable[str], operation: Operation, kind: Pass) -> tuple[str, ...]:
    """The plugins that a request goes through in one pass, in order.

    running: the plugins that are on
    """
    on, letter = tuple(running), OPERATIONS[operation]
    return tuple(
        each.name
        for each in PLUGINS
        if each.name in on and letter in (each.mutates if kind == ADMIT else each.validates)
    )
