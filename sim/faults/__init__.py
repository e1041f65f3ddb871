"""The faults that a scenario can impose: one file a fault, and the ordered registry of all of them.

Each file defines its parameters in the scenario file, their check, the effect on a cluster and the
end of the effect, the words for reports and `orrery why`, and the documentation, and exports them
as one value `FAULT`. The schema and the compiler (`sim.scenario`), the ledger of a cluster and the
director (`sim.app`), the stories (`sim.report`) and the page for authors (`scenarios/README.md`)
read the registry.

Folders follow what a fault acts on: `machines`, `processes`, `links` between hosts, `servers` (the
API servers and their storage), `surroundings` (the cloud, webhooks, drivers, volumes, metrics).

How to add a fault:

1. Write `sim/faults/FOLDER/NAME.py`: a subclass of `Strict` for the parameters, a frozen dataclass
   derived from `Imposed` (or from `Action`, if nothing ends the effect), a function that checks the
   parameters and returns that action, and `FAULT`.  An effect that can overlap with others is an
   `Aspect` of a target: `settle` computes the target's state from all values in force.
2. Add `FOLDER.NAME` to `MODULES` below.
3. Write the page for authors again: `python -m tests.unit.sim.faults.test_documentation`.

`tests/cluster/faults/test_adding_a_fault.py` carries this out.

Holds: nothing here imports `sim.app`, `sim.scenario`, `sim.report` or `actors`.  Effects work on
the narrow protocols of `sim.faults.shared.cluster`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from sim.faults.shared.kinds import Fault
from sim.faults.shared.ledger import Aspect, AspectName

MODULES = (
    "machines.fail",
    "machines.reboot",
    "machines.pressure",
    "machines.devices",
    "machines.sandboxes",
    "machines.workload",
    "machines.manifest",
    "surroundings.metric",
    "machines.heal",
    "links.partition",
    "links.network",
    "processes.crash",
    "processes.start",
    "processes.stall",
    "processes.slow",
    "processes.certificate",
    "processes.clock",
    "processes.lose_lease",
    "servers.storage",
    "surroundings.cloud",
    "surroundings.webhook",
    "surroundings.driver",
    "surroundings.volume",
    "servers.overload",
    "servers.lag",
    "servers.diverge",
    "servers.drop_watches",
    "servers.compact",
)


def _fault(module: str) -> Fault:
    found: Fault = import_module(f"sim.faults.{module}").FAULT
    return found


FAULTS = tuple(_fault(module) for module in MODULES)
ASPECTS: Mapping[AspectName, Aspect] = {aspect.name: aspect for fault in FAULTS for aspect in fault.aspects}
