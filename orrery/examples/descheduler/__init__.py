"""A descheduler: it evicts pods that the scheduler would place better today.

`cluster.add_program("descheduler", descheduler.run)` adds it with the default policy, and a
`lambda client: descheduler.run(client, Policy(...))` with another.
"""

from orrery.examples.descheduler.decide import Eviction, Policy, plan
from orrery.examples.descheduler.loop import run

__all__ = ["Eviction", "Policy", "plan", "run"]
