"""A definition's status as its group and its past have it."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.crd.definition_form import definition
from sim.api.kinds.apiextensions.custom_resource_definition.lifecycle import (
    COMPLETED,
    TERMINATING,
    established,
    is_going,
    marked,
    named,
    released,
    with_condition,
)
from sim.api.objects import condition_of
from sim.api.types import Obj

NOW, LATER = "2020-01-01T00:00:00Z", "2020-01-01T00:01:00Z"


def made(plural: str, kind: str, **names: Any) -> Obj:
    spec = {"group": "example.com", "scope": "Cluster", "names": {"plural": plural, "kind": kind, **names}}
    return definition({"metadata": {"name": f"{plural}.example.com"}, "spec": {**spec, "versions": []}})


def accepted(obj: Obj, *others: Obj) -> Obj:
    found = named(obj, [*others, obj], NOW)
    assert found is not None
    return found


FIRST = accepted(made("widgets", "Widget", shortNames=["wd", "w"]))


@pytest.mark.parametrize(
    ("obj", "reason", "message"),
    [
        (made("widget", "Other"), "PluralConflict", '"widget" is already in use'),
        (made("others", "Other", singular="wd"), "SingularConflict", '"wd" is already in use'),
        (made("others", "Other", shortNames=["o", "w"]), "ShortNamesConflict", '"w" is already in use'),
        (
            made("others", "Other", shortNames=["w", "wd", "w"]),
            "ShortNamesConflict",
            '["w" is already in use, "wd" is already in use]',
        ),
        (made("others", "WidgetList", singular="o"), "KindConflict", '"WidgetList" is already in use'),
        (made("others", "Other", listKind="Widget"), "ListKindConflict", '"Widget" is already in use'),
        (
            # Quirk: that of the list hides that of the kind
            made("others", "Widget", singular="o"),
            "ListKindConflict",
            '"WidgetList" is already in use',
        ),
    ],
)
def test_name_of_another_definition_is_refused(obj: Obj, reason: str, message: str) -> None:
    found = condition_of(accepted(obj, FIRST), "NamesAccepted")
    assert found is not None
    assert (found["status"], found["reason"], found["message"]) == ("False", reason, message)


def test_names_without_a_conflict_are_accepted_all_the_same() -> None:
    names = accepted(made("others", "Widget", singular="o", categories=["all"]), FIRST)["status"][
        "acceptedNames"
    ]
    assert names == {"plural": "others", "singular": "o", "kind": "", "categories": ["all"]}


def test_accepted_names_need_no_write_and_a_conflict_is_written_once() -> None:
    assert named(FIRST, [FIRST], LATER) is None
    refused = accepted(made("others", "Widget", singular="o"), FIRST)
    assert named(refused, [FIRST, refused], LATER) is None


def test_what_was_established_stays_so_when_its_new_names_are_refused() -> None:
    served = established(FIRST, NOW)
    assert served is not None
    assert established(served, LATER) is None
    names = {**served["spec"]["names"], "singular": "gadget"}
    changed = {**served, "spec": {**served["spec"], "names": names}}
    other = accepted(made("gadgets", "Gadget"))
    found = named(changed, [other, changed], LATER)
    assert found is not None
    assert [one["status"] for one in found["status"]["conditions"]] == ["False", "True"]
    assert found["status"]["acceptedNames"]["singular"] == "widget"


def test_a_conditions_time_is_that_of_its_status() -> None:
    first = with_condition(FIRST, "A", ("True", "r", "m"), NOW)
    same = with_condition(first, "A", ("True", "s", "n"), LATER)
    other = with_condition(same, "A", ("False", "s", "n"), LATER)
    times = [(condition_of(one, "A") or {})["lastTransitionTime"] for one in (first, same, other)]
    assert times == [NOW, NOW, LATER]


def test_the_finalizer_keeps_a_deleted_definition_until_it_is_taken_off() -> None:
    going = marked(marked(FIRST, "f", NOW), "f", LATER)
    assert going["metadata"]["finalizers"] == ["f"]
    assert is_going(going, "f")
    gone = released(going, "f", COMPLETED, LATER)
    assert not is_going(gone, "f")
    assert (condition_of(gone, TERMINATING) or {})["reason"] == "InstanceDeletionCompleted"
