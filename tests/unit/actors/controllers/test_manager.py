"""Who the clients of a controller manager ask as."""

from __future__ import annotations

from actors.controllers.manager import user_of
from sim.ident import NAMES


def test_a_loop_asks_as_its_own_service_account_only_where_it_is_told_to() -> None:
    names = NAMES["kubernetes"]
    own = user_of(names, "deployment-controller", own_account=True)
    assert own.name == "system:serviceaccount:kube-system:deployment-controller"
    assert "system:serviceaccounts:kube-system" in own.groups
    assert user_of(names, "deployment-controller", own_account=False).name == "system:kube-controller-manager"
