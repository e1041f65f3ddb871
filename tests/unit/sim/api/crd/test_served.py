"""What definitions add to a scheme, and the objects of theirs."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.crd import objects as custom_objects
from sim.api.crd.jsonpath import find
from sim.api.crd.served import CustomResource, Latest, Served, resources_of
from sim.api.kinds.tables import cells, columns
from sim.api.ownership.apply import Applied, Configuration, apply
from sim.api.ownership.managed import Version, Writer, misfit, on_create, on_update
from sim.api.ownership.typed_values import type_errors
from sim.api.refusals import Refusal
from sim.api.scheme import discovery
from sim.api.scheme.scheme import Scheme
from sim.api.store import Change, Item
from sim.ident import NAMES

NAMING = NAMES["kubernetes"]
GROUP = "example.com"
ACCEPTED = ("NamesAccepted", "Established")

MANY = {
    "type": "array",
    "items": {"type": "object", "properties": {"k": {"type": "string"}}},
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["k"],
}


def version(name: str, *, served: bool = True, storage: bool = False, **more: Any) -> dict[str, Any]:
    schema = {"openAPIV3Schema": more.pop("schema", {"type": "object"})}
    return {"name": name, "served": served, "storage": storage, "schema": schema, **more}


def definition(
    *versions: dict[str, Any], plural: str = "widgets", true: tuple[str, ...] = ACCEPTED, **more: Any
) -> Any:
    names = {
        "kind": "Widget",
        "plural": plural,
        "singular": "widget",
        "listKind": "WidgetList",
        "shortNames": ["wd"],
    }
    return {
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {"group": GROUP, "names": names, "scope": "Namespaced", "versions": list(versions), **more},
        "status": {"acceptedNames": names, "conditions": [{"type": kind, "status": "True"} for kind in true]},
    }


def one(**more: Any) -> CustomResource:
    (resource,) = resources_of(definition(version("v1", storage=True, **more)))
    return resource


def scheme_of(*definitions: Any) -> Scheme:
    class More:
        served = Served(definitions)

    return Scheme(NAMING).beside(More())


def test_a_scheme_finds_what_definitions_add_and_forgets_it_with_them() -> None:
    latest = Latest()
    scheme = Scheme(NAMING).beside(latest)
    item = Item("/k", definition(version("v1", storage=True)), 1, 1)
    assert scheme.find(GROUP, "v1", "widgets") is None
    latest.see(Change(1, item, None, False, 0))
    found = scheme.find(GROUP, "v1", "widgets")
    assert found is not None and scheme.resource("widgets.example.com") is found
    assert scheme.by_kind("example.com/v1", "Widget") is found
    latest.see(Change(2, item, item, True, 0))
    assert scheme.find(GROUP, "v1", "widgets") is None
    with pytest.raises(KeyError):
        scheme.resource("widgets.example.com")


def test_definition_is_served_once_accepted_and_discovered_once_established() -> None:
    v1 = version("v1", storage=True)
    assert Served([definition(v1, true=())]).resources == ()
    early = Served([definition(v1, true=("NamesAccepted",))])
    assert early.find(GROUP, "v1", "widgets") is not None and early.versions == {}
    assert Served([definition(v1)]).versions == {GROUP: ["v1"]}


def test_versions_come_by_how_stable_they_are() -> None:
    names = ("foo", "v1beta1", "v10", "v2alpha3", "v2", "v1", "v1beta2")
    served = Served([definition(*[version(name, storage=name == "v2") for name in names])])
    assert served.versions[GROUP] == ["v10", "v2", "v1", "v1beta2", "v1beta1", "v2alpha3", "foo"]
    named = served.named("widgets.example.com")
    assert named is not None and named.version == "v10"


def test_a_version_that_is_not_served_is_nowhere() -> None:
    served = Served([definition(version("v1", served=False, storage=True), version("v2"))])
    assert served.find(GROUP, "v1", "widgets") is None and served.versions == {GROUP: ["v2"]}


@pytest.mark.parametrize(
    "bad", [{}, {"spec": 5, "status": []}, {"spec": {"versions": ["x"], "names": 1}, "status": None}]
)
def test_a_definition_that_makes_no_sense_serves_nothing(bad: Any) -> None:
    assert resources_of({"metadata": {"name": "x"}, **bad}) == ()


def test_a_custom_kind_of_a_known_plural_is_nothing_of_that_kind() -> None:
    (pods,) = resources_of(definition(version("v1", storage=True), plural="pods"))
    assert not pods.behavior.strategy.graceful and pods.behavior is one().behavior
    scheme = scheme_of(definition(version("v1", storage=True), plural="pods"))
    assert scheme.resource("pods").group == "" and scheme.resource("pods.example.com").group == GROUP


def test_discovery_shows_singular_short_names_and_subresources() -> None:
    scale = {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}
    scheme = scheme_of(definition(version("v1", storage=True, subresources={"status": {}, "scale": scale})))
    body = discovery.custom_resource_list(scheme, GROUP, "v1")
    assert body is not None
    assert [row["name"] for row in body["resources"]] == ["widgets", "widgets/status", "widgets/scale"]
    assert body["resources"][0]["singularName"] == "widget" and body["resources"][0]["shortNames"] == ["wd"]
    assert [g["name"] for g in discovery.api_group_list(scheme)["groups"]][-1] == GROUP
    assert discovery.custom_resource_list(scheme, GROUP, "v2") is None


def test_an_object_is_shown_in_the_version_asked_for() -> None:
    spec = {"type": "object", "properties": {"a": {"type": "string", "default": "d"}}}
    v1 = version(
        "v1", storage=True, schema={"type": "object", "properties": {"spec": spec, "x": {"type": "string"}}}
    )
    v2 = version("v2", schema={"type": "object", "properties": {"spec": spec}})
    first, second = resources_of(definition(v1, v2))
    obj = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {}, "spec": {"b": 1}, "x": "y"}
    assert custom_objects.shown(first, obj) == {**obj, "spec": {"a": "d"}}
    made = custom_objects.shown(second, obj)
    assert made == {"apiVersion": "example.com/v2", "kind": "Widget", "metadata": {}, "spec": {"a": "d"}}
    assert custom_objects.stored(second, made)["apiVersion"] == "example.com/v1"


def test_a_null_that_may_not_be_in_the_version_asked_for_is_not_shown_there() -> None:
    text = {"type": "string"}
    v1 = version(
        "v1", storage=True, schema={"type": "object", "properties": {"a": {**text, "nullable": True}}}
    )
    v2 = version("v2", schema={"type": "object", "properties": {"a": text}})
    first, second = resources_of(definition(v1, v2))
    obj = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {}, "a": None}
    assert custom_objects.shown(first, obj) == obj
    assert "a" not in custom_objects.shown(second, obj)


def test_a_stored_version_that_is_gone_is_refused() -> None:
    with pytest.raises(Refusal, match=r"from an invalid group/version: example\.com/v0"):
        custom_objects.shown(one(), {"apiVersion": "example.com/v0", "metadata": {}})


def test_whole_numbers_are_stored_as_integers() -> None:
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    obj = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {}, "a": [1.0, 1.5, {"b": -2.0}]}
    made = custom_objects.stored(one(schema=free), obj)
    assert repr(made["a"]) == "[1, 1.5, {'b': -2}]"


def test_warning_of_a_deprecated_version_names_the_best_other_one() -> None:
    old = version("v1beta1", deprecated=True)
    resources = resources_of(definition(old, version("v1", storage=True), version("v2")))
    assert resources[0].warning == "example.com/v1beta1 Widget is deprecated; use example.com/v2 Widget"
    newest = resources_of(definition(version("v3", deprecated=True), version("v2", storage=True)))
    assert newest[0].warning == "example.com/v3 Widget is deprecated"


def test_keys_of_lists_and_numbers_of_scales_are_checked() -> None:
    schema = {"type": "object", "properties": {"l": MANY, "n": {"type": "integer"}}}
    scale = {"specReplicasPath": ".n", "statusReplicasPath": ".m"}
    obj = {"metadata": {"name": "a", "namespace": "n"}, "l": [{"k": "a"}, {"k": "a"}], "n": -1}
    errors = custom_objects.create_errors(one(schema=schema, subresources={"scale": scale}), obj)
    assert [(error.field, error.message) for error in errors] == [
        (".n", "Invalid value: -1: should be a non-negative integer"),
        ("l[1]", 'Duplicate value: map[string]interface {}{"k":"a"}'),
    ]


def test_old_duplicate_items_may_stay_and_status_updates_ignore_them() -> None:
    schema = {"type": "object", "properties": {"l": MANY, "n": {"type": "integer"}}}
    scale = {"specReplicasPath": ".n", "statusReplicasPath": ".m"}
    known = one(schema=schema, subresources={"scale": scale})
    meta = {"metadata": {"name": "a", "namespace": "n", "resourceVersion": "1"}}
    once, twice = {**meta, "l": [{"k": "a"}]}, {**meta, "l": [{"k": "a"}, {"k": "a"}]}
    assert [e.field for e in custom_objects.update_errors(known, twice, once)] == ["l[1]"]
    more = {**meta, "l": [*twice["l"], {"k": "a"}]}
    assert custom_objects.update_errors(known, more, twice) == []
    odd = {**meta, "l": [{"k": "a"}, "x"]}
    found = custom_objects.create_errors(known, odd)
    assert found[-1].message == 'Invalid value: "x": must be an object for an array of list-type map'
    below = {**twice, "n": -1, "m": -1}
    assert [e.field for e in custom_objects.status_errors(known, below, once)] == [".m"]


@pytest.mark.parametrize(
    ("obj", "wanted"),
    [
        ({"spec": {"n": "x"}}, [(".spec.n", "0: .spec.n accessor error: x is of the type string, expected int64")]),
        ({"spec": {"n": 1.5}}, [(".spec.n", "0: .spec.n accessor error: 1.5 is of the type float64, expected int64")]),
        ({"spec": {"n": None}}, [(".spec.n", "0: .spec.n accessor error: <nil> is of the type <nil>, expected int64")]),
        (
            {"spec": ["a"]},
            [(".spec.n", "0: .spec.n accessor error: [a] is of the type []interface {}, expected map[string]interface{}")],
        ),
        (
            {"status": {"m": {"a": 1}, "s": 5}},
            [
                (".status.m", "0: .status.m accessor error: map[a:1] is of the type map[string]interface {}, expected int64"),
                (".status.s", '"": .status.s accessor error: 5 is of the type int64, expected string'),
            ],
        ),
        ({"spec": None, "status": {"s": "a in ("}}, []),
    ],
)  # fmt: skip
def test_what_a_scale_shows_is_of_its_type_or_not_there(
    obj: dict[str, Any], wanted: list[tuple[str, str]]
) -> None:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    paths = {
        "specReplicasPath": ".spec.n",
        "statusReplicasPath": ".status.m",
        "labelSelectorPath": ".status.s",
    }
    known = one(schema=anything, subresources={"scale": paths})
    errors = custom_objects.create_errors(known, {"metadata": {"name": "a", "namespace": "n"}, **obj})
    assert [(error.field, error.message) for error in errors] == [
        (field, f"Invalid value: {text}") for field, text in wanted
    ]


def test_fields_of_unknown_form_are_owned_as_far_as_they_are_maps() -> None:
    anything = {"x-kubernetes-preserve-unknown-fields": True}
    node = one(
        schema={"type": "object", "properties": {"o": anything, "n": {"type": "string", "nullable": True}}}
    ).schema
    obj = {"metadata": {"name": "a"}, "o": {"k": [1], "m": {"x": 1}}, "n": None}
    (entry,) = on_create(node, obj, Writer("m", "example.com/v1", 1))
    assert entry.fields == {"f:o": {".": {}, "f:k": {}, "f:m": {".": {}, "f:x": {}}}, "f:n": {}}


def test_an_object_of_wrong_types_has_no_record() -> None:
    node = one(schema={"type": "object", "properties": {"s": {"type": "object"}}}).schema
    assert on_create(node, {"s": [1]}, Writer("m", "example.com/v1", 1)) == ()


def test_record_is_dropped_when_a_version_does_not_declare_a_field() -> None:
    def node(name: str) -> Any:
        field = {"type": "object", "properties": {name: {"type": "string"}}}
        return one(schema={"type": "object", "properties": {"spec": field}}).schema

    old_node, new_node = node("a"), node("b")
    versions = {"example.com/v1": Version(old_node, lambda obj: obj)}
    writer = Writer("m", "example.com/v1", 1)
    record = on_create(old_node, {"spec": {"a": "x"}}, writer)
    later = Writer("n", "example.com/v2", 2)
    before, after = {"spec": {}}, {"spec": {"b": "y"}}
    assert misfit(record, (after,), "example.com/v2", versions.get) == [
        ".spec.b: field not declared in schema"
    ]
    assert on_update(new_node, record, before, after, later, versions=versions.get) == ()


def test_values_of_unknown_form_replace_any_live_value() -> None:
    anything = {"x-kubernetes-preserve-unknown-fields": True}
    node = one(schema={"type": "object", "properties": {"o": anything}}).schema
    forms: list[Any] = [{"k": {"x": 1}}, [1, {"a": 2}], "text", 5, {"k": [1]}, {}, [], {"k": "text"}]
    for before in forms:
        for after in forms:
            wanted = Configuration({"o": after}, Writer("m", "example.com/v1", 1), force=True)
            outcome = apply(node, {"o": before}, (), wanted)
            assert isinstance(outcome, Applied)
            both = isinstance(before, dict) and isinstance(after, dict)
            assert outcome.obj["o"] == ({**before, **after} if both else after)


def marked(list_type: str, map_type: str) -> CustomResource:
    """Its spec has a list and an object that are owned so."""
    keys = {"x-kubernetes-list-map-keys": ["k"]} if list_type == "map" else {}
    item = {
        "type": "object",
        "properties": {"k": {"type": "string"}, "v": {"type": "integer"}},
        "required": ["k"],
    }
    text = {"type": "string"}
    spec = {
        "list": {"type": "array", "items": item, "x-kubernetes-list-type": list_type, **keys},
        "obj": {"type": "object", "properties": {"x": text, "y": text}, "x-kubernetes-map-type": map_type},
    }
    return one(schema={"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}})


def test_owners_of_parts_own_the_whole_once_it_becomes_atomic() -> None:
    parts, whole = marked("map", "granular").schema, marked("atomic", "atomic").schema

    def wanted(manager: str, spec: Any, force: bool = False) -> Configuration:
        return Configuration({"spec": spec}, Writer(manager, "example.com/v1", 1), force)

    first = apply(parts, {}, (), wanted("m1", {"list": [{"k": "a", "v": 1}], "obj": {"x": "1"}}))
    assert isinstance(first, Applied)
    both = apply(parts, first.obj, first.managed, wanted("m2", {"list": [{"k": "b"}], "obj": {"y": "1"}}))
    assert isinstance(both, Applied)
    later = apply(whole, both.obj, both.managed, wanted("m3", {}))
    assert isinstance(later, Applied)
    assert {entry.manager: entry.fields for entry in later.managed} == {
        manager: {"f:spec": {"f:list": {}, "f:obj": {}}} for manager in ("m1", "m2")
    } | {"m3": {"f:spec": {}}}
    refused = apply(whole, both.obj, both.managed, wanted("m3", {"obj": {"y": "2"}}))
    assert isinstance(refused, list)
    assert [(conflict.entry.manager, conflict.fields) for conflict in refused] == [
        (manager, {"f:spec": {"f:obj": {}}}) for manager in ("m1", "m2")
    ]
    # An unchanged value is owned as a whole after an update too; later, its parts have no owner.
    changed = {**both.obj, "spec": {**both.obj["spec"], "obj": {"x": "2"}}}
    record = on_update(whole, both.managed, both.obj, changed, Writer("u", "example.com/v1", 2))
    assert {entry.manager: entry.fields for entry in record} == {
        "m1": {"f:spec": {"f:list": {}}},
        "m2": {"f:spec": {"f:list": {}}},
        "u": {"f:spec": {"f:obj": {}}},
    }
    back = apply(parts, later.obj, later.managed, wanted("m4", {"obj": {"x": "3"}}))
    assert isinstance(back, Applied)


def test_an_update_of_a_value_to_another_type_takes_all_that_lay_below_it() -> None:
    node = one(schema={"type": "object", "x-kubernetes-preserve-unknown-fields": True}).schema
    old, new = {"spec": {"a": {"b": 1}, "c": 1}}, {"spec": {"a": "text", "c": 1}}
    record = on_create(node, old, Writer("m1", "example.com/v1", 1))
    after = on_update(node, record, old, new, Writer("u", "example.com/v1", 2))
    assert {entry.manager: entry.fields for entry in after} == {
        "m1": {"f:spec": {".": {}, "f:c": {}}},
        "u": {"f:spec": {"f:a": {}}},
    }
    again = on_update(node, after, new, old, Writer("v", "example.com/v1", 3))
    assert {entry.manager: entry.fields for entry in again} == {
        "m1": {"f:spec": {".": {}, "f:c": {}}},
        "v": {"f:spec": {"f:a": {".": {}, "f:b": {}}}},
    }


def test_a_key_that_is_no_value_is_refused_and_breaks_nothing() -> None:
    node = one(schema={"type": "object", "properties": {"l": MANY}}).schema
    assert type_errors(node, {"l": [{"k": []}]}) == [
        ".l[k=[]].k: expected string, got &value.valueUnstructured{Value:[]interface {}{}}"
    ]


def test_discovery_of_a_terminating_definition_lists_reads_and_deletions() -> None:
    (resource,) = resources_of(definition(version("v1", storage=True), true=(*ACCEPTED, "Terminating")))
    assert resource.listed_verbs == ("delete", "deletecollection", "get", "list", "watch")
    assert "create" in resource.verbs


@pytest.mark.parametrize(
    ("kind", "value", "cell"),
    [
        ("string", None, "<no value>"),
        ("integer", None, None),
        ("number", 9007199254740993, 9007199254740992),
        ("number", 5, 5),
        ("date", "", "<unknown>"),
    ],
)
def test_column_shows_odd_values_as_upstream(kind: str, value: Any, cell: Any) -> None:
    resource = one(additionalPrinterColumns=[{"name": "A", "type": kind, "jsonPath": ".spec.a"}])
    shown = cells(resource, {"metadata": {"name": "w"}, "spec": {"a": value}}, 0, NAMING)[1]
    assert shown == cell and type(shown) is type(cell)


def test_columns_are_those_of_the_definition() -> None:
    listed = [
        {"name": "A", "type": "string", "jsonPath": ".spec.l[*].x"},
        {"name": "B", "type": "integer", "jsonPath": ".spec.f"},
        {"name": "C", "type": "date", "jsonPath": ".spec.t"},
        {"name": "D", "type": "boolean", "jsonPath": ".spec.f", "priority": 1},
        {"name": "E", "type": "string", "jsonPath": ".spec.[[["},
    ]
    resource = one(additionalPrinterColumns=listed)
    obj = {"metadata": {"name": "w"}, "spec": {"l": [{"x": "a"}, {"x": "b"}], "f": 3.7, "t": "junk"}}
    assert [column["name"] for column in columns(resource)] == ["Name", "A", "B", "C", "D", "E"]
    assert cells(resource, obj, 0, NAMING) == ["w", "a", 3, "<invalid>", None, None]
    assert [column["name"] for column in columns(one())] == ["Name", "Age"]


@pytest.mark.parametrize(
    ("path", "values"),
    [
        (".a.b", [1]),
        (".l[0].x", ["a"]),
        (".l[-1].x", ["b"]),
        (".l[0:1].y", [1]),
        ('.l[?(@.x=="b")].y', [2]),
        (".l[?(@.y>1)].x", ["b"]),
        (r".m.d\.e/f", ["k"]),
        (".m['d.e/f']", ["k"]),
        ("..y", [1, 2]),
        (".a.*", [1]),
        (".nope[3].x", []),
    ],
)
def test_paths_lead_to_values(path: str, values: list[Any]) -> None:
    obj = {"a": {"b": 1}, "l": [{"x": "a", "y": 1}, {"x": "b", "y": 2}], "m": {"d.e/f": "k"}}
    assert find(path, obj) == values


@pytest.mark.parametrize("path", [".a[", ".l[?(@.x==b)]", ".a b", "x" * 2000, ".l[::0]"])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError):
        find(path, {"l": []})
