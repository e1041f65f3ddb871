"""Observers of leases, and the columns in which the renewals of many nodes are kept."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from actors.apiserver.fast import lease_updates
from sim.app.cluster import Cluster
from sim.units import SECOND

NODES = 6


@pytest.mark.parametrize(("observes_nodes", "members"), [(False, NODES), (True, 0)])
async def test_observer_of_other_leases_leaves_those_of_nodes_in_columns(
    observes_nodes: bool, members: int
) -> None:
    async with Cluster(nodes=NODES, seed=3) as cluster:
        with patch.object(lease_updates, "CROWD", 2):
            names = cluster.names
            namespace = names.lease_namespace if observes_nodes else names.system_namespace
            seen: list[str] = []
            cluster.observe(lambda change: seen.append(change.item.key), [f"leases/{namespace}"])
            await cluster.run_until(60 * SECOND)
            assert cluster.storage.beats is not None
            assert cluster.storage.beats.members == members
            assert {key.split("/")[-2] for key in seen} == {namespace}
