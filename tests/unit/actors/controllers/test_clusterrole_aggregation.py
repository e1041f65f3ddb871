"""Which rules a ClusterRole gathers from others."""

from __future__ import annotations

from actors.controllers.clusterrole_aggregation import gathered_rules
from sim.api.types import Obj
from tests.unit.sim.api.auth.rbac.builders import role, rule

PODS, NODES, SECRETS = rule("get", "pods"), rule("get", "nodes"), rule("get", "secrets")


def gathering(*labels: str, rules: tuple[Obj, ...] = ()) -> Obj:
    """A role that gathers from roles with any of the labels, selector by selector."""
    selectors = [{"matchLabels": {label: "true"}} for label in labels]
    return {**role("all", *rules), "aggregationRule": {"clusterRoleSelectors": selectors}}


def labelled(name: str, label: str, *rules: Obj) -> Obj:
    made = role(name, *rules)
    return {**made, "metadata": {"name": name, "labels": {label: "true"}}}


def test_rules_come_selector_by_selector_and_each_once() -> None:
    roles = [labelled("a", "late", PODS, NODES), labelled("b", "early", SECRETS, PODS), role("c", NODES)]
    assert gathered_rules(gathering("early", "late"), roles) == [SECRETS, PODS, NODES]


def test_own_rules_are_not_gathered() -> None:
    own = gathering("x", rules=(PODS,))
    own["metadata"]["labels"] = {"x": "true"}
    assert gathered_rules(own, [own, labelled("b", "x", NODES)]) == [NODES]


def test_gathered_rules_that_are_there_already_need_no_change() -> None:
    assert gathered_rules(gathering("x", rules=(NODES,)), [labelled("b", "x", NODES)]) is None
    assert gathered_rules(role("plain", PODS), [labelled("b", "x", NODES)]) is None
    assert gathered_rules({**gathering("x"), "rules": None}, []) is None


def test_role_that_selects_nothing_gathers_no_rules() -> None:
    assert gathered_rules(gathering("x", rules=(PODS,)), [role("a", NODES)]) == []
