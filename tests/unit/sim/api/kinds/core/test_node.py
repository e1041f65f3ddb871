"""The table row of a node."""

from sim.api.kinds.tables import cells
from sim.api.scheme.scheme import Scheme
from sim.ident import NAMES

NAMING = NAMES["kubernetes"]

SCHEME = Scheme(NAMING)


def test_node_row_shows_roles_and_cordon():
    node = {
        "metadata": {"name": "n", "labels": {"node-role.kubernetes.io/b": "", "kubernetes.io/role": "a"}},
        "spec": {"unschedulable": True},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    assert cells(SCHEME.resource("nodes"), node, 0, NAMING)[1:3] == ["Ready,SchedulingDisabled", "a,b"]
