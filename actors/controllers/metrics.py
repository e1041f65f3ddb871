"""Where autoscaling learns what pods use.

Holds: a source is asked about pods and answers at once, by samples or by the words of its failure; it draws nothing.

Mirrors  kubernetes v1.25 pkg/controller/podautoscaler/metrics/{interfaces.go,client.go}.
Differs  the resource metrics API is no API of its own here: a source is handed to the process.  There is no source of
         custom and external metrics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sim.ident import Names
from sim.machinery.api import Obj


@dataclass(frozen=True, slots=True)
class Sample:
    """What a pod used of one resource, in milli units: the mean over `window_us` up to `at_us` of Unix time.

    cause: the trace record by which programs there use what they do (0: they always did)
    """

    milli: int
    at_us: int
    window_us: int
    cause: int = 0


class Metrics(Protocol):
    """The usage of pods."""

    def resource(self, pods: Sequence[Obj], name: str, wall_us: int) -> Mapping[str, Sample] | str:
        """Samples by pod name, for those that have one; or why there are none at all."""
        ...


class NoMetrics:
    """A cluster without a metrics server, as a new one is."""

    def __init__(self, names: Names) -> None:
        self._text = (
            f"the server could not find the requested resource (get pods.metrics.{names.group_domain})"
        )

    def resource(self, pods: Sequence[Obj], name: str, wall_us: int) -> Mapping[str, Sample] | str:
        return self._text
