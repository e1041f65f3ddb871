"""What a large body can make the API machinery do is bounded: errors of one answer, and work on
each part.
"""

from __future__ import annotations

from typing import Any

import pytest

from sim.api import status
from sim.api.kinds.core import config_map, resource_quota
from sim.api.ownership import field_sets as managed_set
from sim.api.schema.json_text import END, syntax_error
from sim.api.validation.errors import invalid
from sim.api.validation.metadata import finalizers, labels, owner_references

MANY = 3 * status.CAUSES_MAX


def test_answer_holds_a_bounded_number_of_errors() -> None:
    body = status.invalid("", "Pod", "a", [invalid(f"f{n}", "v", "bad") for n in range(MANY)])
    assert [cause["field"] for cause in body["details"]["causes"]] == [
        f"f{n}" for n in range(status.CAUSES_MAX)
    ]
    assert f"f{status.CAUSES_MAX - 1}:" in body["message"]
    assert f"f{status.CAUSES_MAX}:" not in body["message"]


@pytest.mark.parametrize(("letters", "wanted"), [(10, 4), (status.CAUSES_LETTERS_MAX, 1)])
def test_answer_holds_a_bounded_number_of_letters(letters: int, wanted: int) -> None:
    body = status.invalid("", "Pod", "a", [invalid(f"f{n}", "v", "x" * letters) for n in range(4)])
    assert len(body["details"]["causes"]) == wanted


@pytest.mark.parametrize("text", [b'"' + b'\\"' * 1000, b'{"a":"' + b"x" * 1000])
def test_unfinished_string_ends_the_json_input(text: bytes) -> None:
    assert syntax_error(text.decode()) == END


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('"a\\x"', "invalid character 'x' in string escape code"),
        ('"a\tb"', r"invalid character '\t' in string literal"),
        ('"\\u12\\n" 1', r"invalid character '\\' in \u hexadecimal character escape"),
    ],
)
def test_first_mistake_in_a_string_is_named(text: str, wanted: str) -> None:
    assert syntax_error(text) == wanted


def test_validation_stops_soon_after_what_an_answer_holds() -> None:
    bad = {f"k{n}!": "" for n in range(MANY)}
    metadata = {"name": "a", "namespace": "default"}
    for errors in (
        labels(bad, "metadata.labels"),
        finalizers([*bad], "metadata.finalizers"),
        config_map._validate_create({"metadata": metadata, "data": bad}),
    ):
        assert status.CAUSES_MAX < len(errors) < status.CAUSES_MAX + 10


def test_shared_trees_of_fields_are_bounded_in_their_fields() -> None:
    for n in range(30):
        managed_set.intern({f"f:{n}-{i}": managed_set.LEAF for i in range(30_000)})
    kept = {id(tree): len(tree) for tree in managed_set._trees.values()}
    assert sum(kept.values()) <= managed_set._FIELDS_MAX


def test_errors_about_owners_share_the_text_of_all_owners() -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "controller": True, "uid": "u"}
    errors = owner_references([{**owner, "name": f"n{n}"} for n in range(20)], "metadata.ownerReferences")
    assert len(errors) == 19
    assert all(error.value is errors[0].value for error in errors)


@pytest.mark.parametrize("scope", ["Terminating", "BestEffort"])
def test_quota_compares_each_resource_with_each_scope_once(
    scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = []

    def seen(*both: str) -> Any:
        compared.append(both)
        return fits(*both)

    fits = resource_quota._fits
    monkeypatch.setattr(resource_quota, "_fits", seen)
    hard = {f"a.b/c{n}": "1" for n in range(30)} | {"pods": "1"}
    chosen = [{"scopeName": scope, "operator": "Exists"}] * 30
    spec = {"hard": hard, "scopes": [scope] * 30, "scopeSelector": {"matchExpressions": chosen}}
    assert (
        resource_quota._validate_create({"metadata": {"name": "q", "namespace": "default"}, "spec": spec})
        == []
    )
    assert len(compared) == len(hard)
