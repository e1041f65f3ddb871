"""The order in which messages arrive: the field `cluster.arrivals`, checked, and the orders of a
hunt as values of this field.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from math import factorial
from typing import Any

from sim.api.scheme.scheme import Scheme
from sim.ident import NAMES
from sim.kernel.draws.arrivals import AMONG_MAX, Arrivals
from sim.kernel.draws.dice import mix
from sim.scenario.plan.context import Compiler
from sim.scenario.read.source import Path_
from sim.scenario.schema.hunting import Orders
from sim.scenario.schema.sections import Arrivals as Entry
from sim.scenario.schema.sections import Cluster
from sim.units import MINUTE

HERE: Path_ = ("spec", "cluster", "arrivals")
VARIED = "cluster.arrivals"  # the field, as the settings of a scenario name it
ORDERS_MAX = 120  # of a hunt: all of five names
DRAWS = 20  # sets of draws in a hunt


def arrivals_of(compiler: Compiler, cluster: Cluster, senders: Collection[str]) -> Arrivals | None:
    """The order; None if that of the seed holds.

    senders: names of the nodes and of the processes of the control plane
    """
    if cluster.arrivals is not None:
        with compiler.part(HERE):
            return _checked(compiler, cluster.arrivals, HERE, cluster.naming, senders)
    return None


def orders_of(
    compiler: Compiler, orders: Orders, path: Path_, naming: str, senders: Collection[str]
) -> tuple[Mapping[str, Any], ...]:
    """The values of the field that a hunt draws from; those of few names are all there are.

    path: of the field of the hunt
    Raises InputError.
    """
    entry = Entry(among=orders.among, spread=orders.spread)
    _checked(compiler, entry, path, naming, senders)
    count = factorial(len(orders.among)) if orders.among else DRAWS
    numbers = [*range(count)] if count <= ORDERS_MAX else [mix(one) % count for one in range(ORDERS_MAX)]
    argument = {key: value for key, value in (("among", orders.among), ("spread", orders.spread)) if value}
    return tuple({"order": number, **argument} for number in numbers)


def _checked(
    compiler: Compiler, entry: Entry, here: Path_, naming: str, senders: Collection[str]
) -> Arrivals:
    """Raises InputError."""
    error = compiler.document.error
    spread_us = compiler.duration(entry.spread, (*here, "spread"))
    if spread_us > MINUTE:
        raise error(
            (*here, "spread"), "no message is later than by a minute", "cut the link for a longer time"
        )
    if len(entry.among) > AMONG_MAX:
        problem = f"{len(entry.among)} names have more orders than numbers"
        raise error((*here, "among"), problem, f"name at most {AMONG_MAX}, or leave `among` out")
    resources = {each.plural for each in Scheme(NAMES[naming]).resources} if entry.among else set()
    for index, name in enumerate(entry.among):
        path = (*here, "among", index)
        if name in entry.among[:index]:
            raise error(path, f"{name} is there twice")
        if name not in senders and name not in resources:
            near = get_close_matches(name, [*senders, *resources], n=1)
            remedy = f"there is {near[0]}" if near else "name a process, a node, or a resource in the plural"
            raise error(path, f"{name!r} sends no messages", remedy)
    count = factorial(len(entry.among))
    if entry.among and entry.order >= count:
        remedy = f"they are numbered from 0 to {count - 1}"
        raise error((*here, "order"), f"{len(entry.among)} names have {count} orders", remedy)
    return Arrivals(entry.order, spread_us, tuple(entry.among))
