"""Users of the controller manager's clients."""

from __future__ import annotations

from actors.controllers.manager import user_of
from sim.ident import NAMES


def test_controller_uses_its_service_account_only_if_the_option_is_set() -> None:
    names = NAMES["kubernetes"]
    own = user_of(names, "deployment-controller", own_account=True)
    assert own.name == "system:serviceaccount:kube-system:deployment-controller"
    assert "system:serviceaccounts:kube-system" in own.groups
    assert user_of(names, "deployment-controller", own_account=False).name == "system:kube-controller-manager"
