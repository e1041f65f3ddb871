"""Changes of documents."""

from __future__ import annotations

from pathlib import Path

from sim.app.hunt.shrinking.documents import value_at, whole, with_value, without

DOCUMENT = {"spec": {"objects": ["pods.yaml", {"kind": "Pod"}], "list": [1, 2, {"a": 3, "b": 4}]}}


def test_with_value_copies_the_path_and_shares_the_rest() -> None:
    changed = with_value(DOCUMENT, ("spec", "list", 2, "a"), 9)
    assert changed["spec"]["list"] == [1, 2, {"a": 9, "b": 4}]
    assert DOCUMENT["spec"]["list"][2] == {"a": 3, "b": 4}
    assert changed["spec"]["objects"] is DOCUMENT["spec"]["objects"]


def test_without_leaves_out_elements_and_what_is_in_them() -> None:
    paths = [("spec", "list", 0), ("spec", "list", 2), ("spec", "list", 2, "a"), ("spec", "absent", 1)]
    assert without(DOCUMENT, paths)["spec"]["list"] == [2]


def test_value_at_a_missing_path_is_none() -> None:
    assert value_at(DOCUMENT, ("spec", "list", 7, "a")) is None
    assert value_at(DOCUMENT, ("spec", "list", "a")) is None


def test_whole_document_holds_the_objects_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "pods.yaml").write_text("kind: Pod\n---\nkind: Node\n")
    document = whole(DOCUMENT, tmp_path)
    assert document["spec"]["objects"] == [{"kind": "Pod"}, {"kind": "Node"}, {"kind": "Pod"}]
