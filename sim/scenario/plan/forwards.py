"""The real servers behind images, from the section `cluster.programs`."""

from __future__ import annotations

from collections.abc import Mapping

from sim.scenario.plan.plan import ForwardPlan
from sim.scenario.read.source import Document, Path_
from sim.scenario.schema.sections import Program

PORTS = range(1, 65536)


def forward_plans(document: Document, path: Path_, given: Mapping[str, Program]) -> Mapping[str, ForwardPlan]:
    """The servers by image.  Raises InputError."""
    result: dict[str, ForwardPlan] = {}
    for image, program in given.items():
        here = (*path, image, "forward")
        host, _, port = program.forward.rpartition(":")
        if not host or not port.isdecimal() or int(port) not in PORTS:
            raise document.error(here, f"{program.forward!r} is no HOST:PORT", "127.0.0.1:9000")
        result[image] = ForwardPlan(program.forward, document.place(here))
    return result
