"""Requests that ask for much work each, and the longest piece of work that each makes.

python -m tests.bench.heavy [PART OF A NAME]

Each form is one kind of request of the largest size that is taken, or refused for its size, with
the requests that prepare it.  `tests.bench.pieces` measures, in processor time, for how long other
requests wait.  Exit status 1 if a piece is longer than `PIECE_MS_MAX`.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import client as http_client
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from sim.ident import NAMES
from tests.bench.serving import Server, served
from tests.bench.timing import machine

N = NAMES["kubernetes"]
http_client._MAXHEADERS = 100_000  # type: ignore[attr-defined]
PIECE_MS_MAX = 150.0
SETTLED_S = 0.3  # for what a request leaves to be done after its answer
SERVED_S = 60.0  # for a new kind, on a busy machine
VALUES = 49_000
CORE = "/api/v1/namespaces/default"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MARKS = ("[", "{", "-", "? ", "- ", "a: ", "[]", "{},", '"', "&a ", "*a ", "!!a ", "%", "#", "\n", "\\")
Sent = tuple[str, str, Any, str]  # method, path, body (a text is sent unchanged), media type


@dataclass(slots=True)
class Heavy:
    """A form.  before: requests that prepare it; sent: those that are measured"""

    name: str
    sent: list[Sent]
    before: list[Sent] = field(default_factory=list)


def post(path: str, body: Any) -> Sent:
    return "POST", path, body, N.media_json


def patch(path: str, body: Any, media: str) -> Sent:
    force = "&force=true" if media == N.media_apply_patch else ""
    return "PATCH", f"{path}?fieldManager=m{force}", body, media


def definition(plural: str, properties: Any, **more: Any) -> Any:
    """A definition of a namespaced kind of the group a.io."""
    schema = {"type": "object", "properties": properties, **more}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": plural, "kind": plural.title()}
    spec = {"group": "a.io", "names": names, "scope": "Namespaced", "versions": [version]}
    return {"metadata": {"name": f"{plural}.a.io"}, "spec": spec}


def custom(plural: str, name: str = "x", **fields: Any) -> Any:
    head = {"apiVersion": "a.io/v1", "kind": plural.title(), "metadata": {"name": name}}
    return {**head, **fields}


def place(plural: str, name: str = "") -> str:
    at = f"/apis/a.io/v1/namespaces/default/{plural}"
    return f"{at}/{name}" if name else at


def kinds_of(plural: str, properties: Any, obj: Any, change: Any) -> list[Heavy]:
    """An object of a kind of its own: created, replaced, patched and applied.

    change: fields that the patches set
    """
    defined = post(DEFINITIONS, definition(plural, properties))
    made, at = post(place(plural), obj), place(plural, "x")
    applied = patch(at, obj, N.media_apply_patch)
    return [
        Heavy(f"{plural}: create", [made], [defined]),
        Heavy(f"{plural}: replace", [("PUT", at, {**obj, **change}, N.media_json)]),
        Heavy(
            f"{plural}: merge patch", [patch(at, {"metadata": {"labels": {"a": "b"}}}, N.media_merge_patch)]
        ),
        Heavy(f"{plural}: apply", [applied]),
        Heavy(f"{plural}: apply a change", [patch(at, {**obj, **change}, N.media_apply_patch)]),
        Heavy(f"{plural}: apply nothing", [patch(at, custom(plural), N.media_apply_patch)]),
        Heavy(f"{plural}: delete", [("DELETE", at, None, N.media_json)]),
    ]


def custom_forms() -> Iterator[Heavy]:
    numbers = [*range(VALUES)]
    integers = {"type": "array", "items": {"type": "integer"}, "maxItems": VALUES}
    rules = [{"rule": f"self.a.all(x, x >= {-n})"} for n in range(40)]
    properties = {
        "spec": {"type": "object", "properties": {"a": integers}, "x-kubernetes-validations": rules}
    }
    yield from kinds_of("cels", properties, custom("cels", spec={"a": numbers}), {"spec": {"a": numbers[1:]}})
    # A rule that the cost limit of one evaluation ends.
    rules = [{"rule": "self.a.all(x, self.a.exists(y, y == x + 1))"}]
    some = {**integers, "maxItems": 1_100}  # the estimate of a definition allows no more
    properties = {"spec": {"type": "object", "properties": {"a": some}, "x-kubernetes-validations": rules}}
    yield Heavy(
        "limits: create",
        [post(place("limits"), custom("limits", spec={"a": numbers[:1_100]}))],
        [post(DEFINITIONS, definition("limits", properties))],
    )
    for n, rule in enumerate(
        (
            "self.a.map(x, x * 2).size() > 0 && self.a.filter(x, x > 3).size() > 0",
            "self.a.all(x, x in [1, 2, 3] || 'a12'.matches('[0-9]+'))",
            "self.a.exists_one(x, x % 7 == 3 && x > 49000 ? true : false)",
            "self.a.all(x, has(self.a) && size(self.a) > 0 && !(x < 0))",
        )
    ):
        bound = {**integers, "maxItems": 2_000}
        some = {"type": "object", "properties": {"a": bound}}
        some["x-kubernetes-validations"] = [{"rule": rule}] * 40
        yield Heavy(
            f"rules{n}: create",
            [post(place(f"rules{n}"), custom(f"rules{n}", spec={"a": numbers[:2_000]}))],
            [post(DEFINITIONS, definition(f"rules{n}", {"spec": some}))],
        )
    # A rule for each of many values.
    item = {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= 0"}]}
    many = {"spec": {"type": "object", "properties": {"a": {**integers, "items": item}}}}
    yield from kinds_of("eachs", many, custom("eachs", spec={"a": numbers}), {"spec": {"a": numbers[1:]}})
    item = {"type": "object", "properties": {k: {"type": "string"} for k in ("name", "a", "b")}}
    keyed = {"type": "array", "items": {**item, "required": ["name"]}}
    keyed |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    items = [{"name": f"n{n}", "a": "x", "b": "y"} for n in range(11_000)]
    changed = [{**each, "a": "z"} for each in items]
    yield from kinds_of("keyeds", {"x": keyed}, custom("keyeds", x=items), {"x": changed})
    several = {**keyed, "x-kubernetes-list-map-keys": ["name", "a", "b"]}
    several["items"] = {**item, "required": ["name", "a", "b"]}
    yield from kinds_of("severals", {"x": several}, custom("severals", x=items), {"x": changed})
    names = {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}
    texts = [f"v{n}" for n in numbers]
    yield from kinds_of("sets", {"x": names}, custom("sets", x=texts), {"x": texts[1:]})
    open_ended = {"x": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    flat = {f"k{n}": n for n in numbers}
    yield from kinds_of("opens", open_ended, custom("opens", x=flat), {"x": {**flat, "k0": 9}})
    wide = {"x": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}}}
    yield from kinds_of("wides", wide, custom("wides", x=flat), {"x": {**flat, "k0": 9}})
    unknown = custom("wides", "unknown", **{f"u{n}": n for n in numbers})
    yield Heavy("unknown fields", [post(place("wides"), unknown)])
    wrong = custom("wides", "wrong", x=dict.fromkeys(flat, "text"))
    yield Heavy("values of a wrong type", [post(place("wides"), wrong)])
    negative = custom("wides", "negative", x=dict.fromkeys(flat, -1))
    yield Heavy("values out of bounds", [post(place("wides"), negative)])
    head = json.dumps(custom("opens", "deep"))[:-1]
    deep = f'{head}, "x": {{{chr(34)}a":' + '{"a":' * 9_000 + "1" + "}" * 9_002
    yield Heavy("a deep value", [post(place("opens"), deep)])


def patch_forms() -> Iterator[Heavy]:
    array = {"x": {"type": "array", "items": {"type": "integer"}}}
    defined = post(DEFINITIONS, definition("arrays", array))
    made = post(place("arrays"), custom("arrays", x=[*range(39_000)]))
    at, media = place("arrays", "x"), N.media_json_patch
    add = {"op": "add", "path": "/x/0", "value": 1}
    yield Heavy("json patch: add first", [patch(at, [add] * 9_000, media)], [defined, made])
    maps = post(f"{CORE}/configmaps", {"metadata": {"name": "patched", "finalizers": ["a/b"]}})
    add = {"op": "add", "path": "/metadata/finalizers/0"}
    some = [{**add, "value": f"a/b{n}"} for n in range(9_000)]
    yield Heavy("json patch: finalizers", [patch(f"{CORE}/configmaps/patched", some, media)], [maps])
    tests = [{"op": "test", "path": "/x", "value": [*range(70)]}] * 9_000
    yield Heavy("json patch: tests", [patch(at, tests, media)])
    turns = [{"op": "move", "from": "/x/0", "path": "/x/-"}] * 10_000
    yield Heavy("json patch: moves", [patch(at, turns, media)])
    copies = [{"op": "copy", "from": "/metadata/labels", "path": "/metadata/labels"}] * 9_999
    labels = {"op": "add", "path": "/metadata/labels", "value": {"a": "b", "c": "d"}}
    yield Heavy("json patch: copies", [patch(at, [labels, *copies], media)])
    copy = [{"op": "copy", "from": "/x", "path": "/x"}] * 9_999
    yield Heavy("json patch: large copies", [patch(at, copy, media)])
    deep = "/x" * 4_000
    yield Heavy("json patch: long paths", [patch(at, [{"op": "add", "path": deep, "value": 1}] * 180, media)])
    yield Heavy(
        "json patch: refused count", [patch(at, [{"op": "test", "path": "/x", "value": 1}] * 30_000, media)]
    )
    yield Heavy(
        "json patch: unknown", [patch(at, [{"op": "test", "path": "", "a": 1, "b": 2}] * 9_000, media)]
    )
    yield Heavy("json patch: empty", [patch(at, [{}] * 49_000, media)])


def definition_forms() -> Iterator[Heavy]:
    leaves = {f"p{n}": {"type": "string"} for n in range(7_200)}
    described = {f"p{n}": {"type": "string", "description": "a", "maxLength": 5} for n in range(7_200)}
    for name, properties in (("leaves", leaves), ("describeds", described)):
        made = definition(name, properties)
        at = f"{DEFINITIONS}/{name}.a.io"
        yield Heavy(f"definition of {name}: create", [post(DEFINITIONS, made)])
        yield Heavy(f"definition of {name}: read", [("GET", at, None, N.media_json)])
        label = {"metadata": {"labels": {"a": "b"}}}
        yield Heavy(f"definition of {name}: patch", [patch(at, label, N.media_merge_patch)])
        yield Heavy(
            f"definition of {name}: openapi v3", [("GET", "/openapi/v3/apis/a.io/v1", None, N.media_json)]
        )
        yield Heavy(f"definition of {name}: openapi v2", [("GET", "/openapi/v2", None, N.media_json)])
        obj = custom(name, **dict.fromkeys(leaves, "a"))
        yield Heavy(f"definition of {name}: object", [post(place(name), obj)])
        applied = {**made, "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
        yield Heavy(f"definition of {name}: apply", [patch(at, applied, N.media_apply_patch)])
    for junctor in ("allOf", "anyOf", "oneOf"):
        parts = [{"properties": {"a": {"maximum": n}}} for n in range(3_000)]
        made = definition(f"{junctor.lower()}s", {"a": {"type": "integer"}}, **{junctor: parts})
        yield Heavy(f"definition of {junctor}", [post(DEFINITIONS, made)])
        name = f"{junctor.lower()}s"
        yield Heavy(f"object of {junctor}", [post(place(name), custom(name, a=5))])
    ruled = {"x-kubernetes-validations": [{"rule": f"self.a > {n}"} for n in range(1_000)]}
    made = definition("ruleds", {"a": {"type": "integer"}}, **ruled)
    yield Heavy("definition of 1,000 rules", [post(DEFINITIONS, made)])
    for turn in ("first", "second"):
        yield Heavy(f"{turn} object of 1,000 rules", [post(place("ruleds"), custom("ruleds", turn, a=2_000))])
    enum = definition("enums", {"a": {"type": "string", "enum": [f"v{n}" for n in range(40_000)]}})
    yield Heavy("definition of a long enum", [post(DEFINITIONS, enum)])
    yield Heavy("object of a long enum", [post(place("enums"), custom("enums", a="x"))])
    default = {"type": "array", "items": {"type": "integer"}, "default": [*range(40_000)]}
    yield Heavy("definition of a long default", [post(DEFINITIONS, definition("defaults", {"a": default}))])
    yield Heavy("object of a long default", [post(place("defaults"), custom("defaults"))])
    deep = '{"type":"object","properties":{"a":' * 2_000 + '{"type":"string"}' + "}}" * 2_000
    whole = json.dumps(definition("deeps", {"a": "DEEP"})).replace('"DEEP"', deep)
    yield Heavy("definition of a deep schema", [post(DEFINITIONS, whole)])
    versions = definition("versions", {})
    versions["spec"]["versions"] = [
        {**versions["spec"]["versions"][0], "name": f"v{n}", "storage": n == 1} for n in range(1, 3_000)
    ]
    yield Heavy("definition of 3,000 versions", [post(DEFINITIONS, versions)])
    pattern = {"type": "string", "pattern": "(a|b)*c{1,9}"}
    made = definition("patterns", {f"p{n}": {**pattern, "pattern": f"a{n}(a|b)*"} for n in range(5_000)})
    yield Heavy("definition of 5,000 patterns", [post(DEFINITIONS, made)])
    yield Heavy(
        "object of 5,000 patterns",
        [post(place("patterns"), custom("patterns", **{f"p{n}": f"a{n}" for n in range(5_000)}))],
    )


def document_forms() -> Iterator[Heavy]:
    spec = {"spec": {"type": "object", "properties": {k: {"type": "string"} for k in "abcdefgh"}}}
    before = [post(DEFINITIONS, definition(f"many{n}", spec)) for n in range(500)]
    yield Heavy("openapi v2 of 500 definitions", [("GET", "/openapi/v2", None, N.media_json)], before)
    one = post(DEFINITIONS, definition("another", spec))
    again = ("GET", "/openapi/v2", None, N.media_json)
    yield Heavy("openapi v2 after one more", [again], [one])
    binary = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    yield Heavy("openapi v2 in protobuf", [("GET", "/openapi/v2", None, f">{binary}")])
    yield Heavy("openapi v3 of 500 definitions", [("GET", "/openapi/v3/apis/a.io/v1", None, N.media_json)])
    yield Heavy("openapi v3, root", [("GET", "/openapi/v3", None, N.media_json)])
    yield Heavy("discovery of 500 definitions", [("GET", "/apis/a.io/v1", None, N.media_json)])
    yield Heavy("list of 500 definitions", [("GET", DEFINITIONS, None, N.media_json)])


def body_forms() -> Iterator[Heavy]:
    maps = f"{CORE}/configmaps"
    for media in (N.media_json, N.media_yaml):
        for text in MARKS:
            yield Heavy(
                f"{media.rpartition('/')[2]}: {text!r}",
                [("POST", maps, text * (1_500_000 // len(text)), media)],
            )
    made = post(maps, {"metadata": {"name": "p"}})
    medias = (N.media_json_patch, N.media_merge_patch, N.media_strategic_patch, N.media_apply_patch)
    for media in medias:
        sent = [patch(f"{maps}/p", text * 1_500_000, media) for text in "[{"]
        yield Heavy(f"{media.rpartition('/')[2]}: brackets", sent, [made])
    million = "- 1\n" * 750_000
    yield Heavy("yaml: three million bytes of items", [("POST", maps, f"a:\n{million}", N.media_yaml)])
    yield Heavy(
        "yaml: four million bytes of items",
        [("POST", maps, f"a:\n{'- 1' + chr(10)}" * 1_000_000, N.media_yaml)],
    )
    yield Heavy(
        "yaml: apply of a million items", [patch(f"{maps}/p", "- 1\n" * 750_000, N.media_apply_patch)]
    )
    yield Heavy(
        "json: escapes", [("POST", maps, '{"data":{"a":"' + "\\u0061" * 400_000 + '"}}', N.media_json)]
    )
    yield Heavy("json: a long number", [("POST", maps, '{"a":' + "1" * 2_900_000 + "}", N.media_json)])
    yield Heavy("yaml: a long number", [("POST", maps, "a: " + "1" * 2_900_000, N.media_yaml)])
    yield Heavy("json: a long text", [("POST", maps, {"metadata": {"name": "x" * 2_900_000}}, N.media_json)])
    yield Heavy(
        "json: one key twice", [("POST", maps, "{" + ",".join(['"a":1'] * 24_000) + "}", N.media_json)]
    )
    for n, (name, one) in enumerate({"data": "v", "labels": "v", "finalizers": ""}.items()):
        keys = {f"k{k}": one for k in range(VALUES)}
        fields = {"data": keys} if name == "data" else {}
        meta: Any = {} if name == "data" else {name: keys if one else [f"a/{k}" for k in keys]}
        obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"b{n}", **meta}, **fields}
        at = f"{maps}/b{n}"
        yield Heavy(f"configmap of {name}: create", [post(maps, obj)])
        for media in medias[1:]:
            yield Heavy(f"configmap of {name}: {media.rpartition('/')[2]}", [patch(at, obj, media)])
        yield Heavy(f"configmap of {name}: delete", [("DELETE", at, None, N.media_json)])


def query_forms() -> Iterator[Heavy]:
    maps = f"{CORE}/configmaps"
    before = [post(maps, {"metadata": {"name": f"q{n}", "labels": {"a": f"v{n}"}}}) for n in range(300)]
    some = ",".join(f"v{n}" for n in range(5_000))
    yield Heavy(
        "query: labels in a set", [("GET", f"{maps}?labelSelector=a+in+({some})", None, N.media_json)], before
    )
    some = ",".join(f"a!=x{n}" for n in range(4_000))
    yield Heavy("query: many requirements", [("GET", f"{maps}?labelSelector={some}", None, N.media_json)])
    some = ",".join(f"metadata.name!=x{n}" for n in range(1_500))
    yield Heavy("query: many fields", [("GET", f"{maps}?fieldSelector={some}", None, N.media_json)])
    yield Heavy("query: parentheses", [("GET", f"{maps}?labelSelector={'(' * 30_000}", None, N.media_json)])
    yield Heavy("query: many options", [("GET", f"{maps}?{'a=b&' * 10_000}", None, N.media_json)])


def lists_of(path: str, obj: Any, where: tuple[str, ...], key: str, change: Any) -> list[Heavy]:
    """An object of a fixed kind with a long list.  Strategic merge patches find its items by a key.

    where: the path of the list; change: fields that patches set in each item
    """

    def holding(items: Any, more: Any = None) -> Any:
        value: Any = {where[-1]: items, **(more or {})}
        for step in reversed(where[:-1]):
            if step == "containers":
                value = [{"name": "c", "image": "i", **value}]
            value = {step: value}
        return value

    kind, at = obj["kind"].lower(), f"{path}/{obj['metadata']['name']}"
    items = obj
    for step in where:
        items = items[step][0] if step == "containers" and step != where[-1] else items[step]
    keys = [{key: each[key]} for each in items]
    media = N.media_strategic_patch
    gone = [{**each, "$patch": "delete"} for each in keys]
    order = {f"$setElementOrder/{where[-1]}": keys[::-1]}
    patches = {
        "one": holding([{**items[0], **change}]),
        "each": holding([{**each, **change} for each in items]),
        "order": holding([{**items[0], **change}], order),
        "replace": holding([*items[1:], {"$patch": "replace"}]),
        "delete": holding(gone[2:]),
    }
    return [
        Heavy(f"{kind} of {where[-1]}: create", [post(path, obj)]),
        *(Heavy(f"{kind} of {where[-1]}: strategic {n}", [patch(at, p, media)]) for n, p in patches.items()),
        Heavy(f"{kind} of {where[-1]}: apply", [patch(at, obj, N.media_apply_patch)]),
        Heavy(f"{kind} of {where[-1]}: delete", [("DELETE", at, None, N.media_json)]),
    ]


def strategic_forms() -> Iterator[Heavy]:
    """Objects of fixed kinds with long lists, and strategic merge patches of them."""
    labels = {"app": "a"}
    env = [{"name": f"E{n}", "value": "v"} for n in range(16_000)]
    container = {"name": "c", "image": "i", "env": env}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    obj: Any = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    place = ("spec", "template", "spec", "containers", "env")
    yield from lists_of("/apis/apps/v1/namespaces/default/deployments", obj, place, "name", {"value": "w"})
    containers = [{"name": f"c{n}", "image": "i"} for n in range(4_000)]
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}}
    yield from lists_of(f"{CORE}/pods", obj, ("spec", "containers"), "name", {"image": "j"})
    volumes = [{"name": f"v{n}", "emptyDir": {}} for n in range(9_000)]
    spec = {"containers": containers[:1], "volumes": volumes}
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "volumes"}, "spec": spec}
    yield from lists_of(f"{CORE}/pods", obj, ("spec", "volumes"), "name", {"emptyDir": {"medium": "Memory"}})
    ports = [{"name": f"p{n}", "port": n + 1} for n in range(9_000)]
    obj = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": ports}}
    yield from lists_of(f"{CORE}/services", obj, ("spec", "ports"), "port", {"targetPort": 5})
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o"}
    owners = [{**owner, "uid": f"u{n}"} for n in range(9_000)]
    meta = {"name": "owned", "ownerReferences": owners}
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
    yield from lists_of(
        f"{CORE}/configmaps", obj, ("metadata", "ownerReferences"), "uid", {"blockOwnerDeletion": True}
    )
    rule = {"apiGroups": [""], "verbs": ["get"]}
    rules = [{**rule, "resources": [f"r{n}"]} for n in range(9_000)]
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    yield Heavy("role: create", [post(roles, {**head, "metadata": {"name": "r"}, "rules": rules})])
    bound = {"apiVersion": head["apiVersion"], "kind": "ClusterRoleBinding", "metadata": {"name": "r"}}
    bound |= {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"}}
    bound |= {"subjects": [{"kind": "User", "name": f"u{n}"} for n in range(20_000)]}
    yield Heavy("role binding: create", [post(f"{roles[:-1]}bindings", bound)])
    yield Heavy(
        "role: replace",
        [("PUT", f"{roles}/r", {**head, "metadata": {"name": "r"}, "rules": rules[1:]}, N.media_json)],
    )
    review = {"resourceAttributes": {"verb": "get", "resource": "r8999"}}
    reviews = "/apis/authorization.k8s.io/v1"
    yield Heavy("role: review", [post(f"{reviews}/subjectaccessreviews", {"spec": {**review, "user": "u9"}})])
    addresses = [{"ip": f"10.0.{n // 250}.{n % 250 + 1}"} for n in range(9_000)]
    subsets = [{"addresses": addresses, "ports": [{"port": 80}]}]
    made = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "e"}, "subsets": subsets}
    yield Heavy("endpoints: create", [post(f"{CORE}/endpoints", made)])
    peers = [{"from": [{"ipBlock": {"cidr": f"10.{n // 250}.{n % 250}.0/24"}}]} for n in range(9_000)]
    policy = {"metadata": {"name": "n"}, "spec": {"podSelector": {}, "ingress": peers}}
    yield Heavy(
        "network policy: create",
        [post("/apis/networking.k8s.io/v1/namespaces/default/networkpolicies", policy)],
    )
    expressions = [{"key": f"k{n}", "operator": "NotIn", "values": ["v"]} for n in range(9_000)]
    spec = {"selector": {"matchExpressions": expressions, "matchLabels": labels}, "template": template}
    made = {"metadata": {"name": "x"}, "spec": {**spec, "replicas": 1}}
    yield Heavy(
        "deployment of expressions: create", [post("/apis/apps/v1/namespaces/default/deployments", made)]
    )
    terms = [{"matchExpressions": [each]} for each in expressions]
    affinity = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    }
    spec = {"containers": containers[:1], "affinity": affinity}
    yield Heavy(
        "pod of node terms: create", [post(f"{CORE}/pods", {"metadata": {"name": "terms"}, "spec": spec})]
    )
    term = {"topologyKey": "zone", "labelSelector": {"matchExpressions": expressions[:3]}}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term] * 4_000}}
    spec = {"containers": containers[:1], "affinity": near}
    yield Heavy(
        "pod of pod terms: create", [post(f"{CORE}/pods", {"metadata": {"name": "near"}, "spec": spec})]
    )
    tolerations = [{"key": f"k{n}", "operator": "Exists"} for n in range(9_000)]
    spec = {"containers": containers[:1], "tolerations": tolerations}
    yield Heavy(
        "pod of tolerations: create", [post(f"{CORE}/pods", {"metadata": {"name": "t"}, "spec": spec})]
    )


def review_forms() -> Iterator[Heavy]:
    at = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    attributes = {"verb": "get", "resource": "pods", "namespace": "default"}
    groups = [f"g{n}" for n in range(VALUES)]
    spec = {"user": "u", "groups": groups, "resourceAttributes": attributes}
    yield Heavy("review: groups", [post(at, {"spec": spec})])
    extra = {f"k{n}": ["v"] for n in range(20_000)}
    yield Heavy("review: extra", [post(at, {"spec": {**spec, "groups": [], "extra": extra}})])
    for kind in ("token", "selfsubjectrules", "selfsubjectaccess"):
        group = "authentication" if kind == "token" else "authorization"
        spec = {"token": "e30." * 300_000, "audiences": groups, "namespace": "default"}
        yield Heavy(f"review: {kind}", [post(f"/apis/{group}.k8s.io/v1/{kind}reviews", {"spec": spec})])


PARTS: tuple[Callable[[], Iterator[Heavy]], ...] = (
    custom_forms,
    patch_forms,
    definition_forms,
    document_forms,
    body_forms,
    query_forms,
    review_forms,
    strategic_forms,
)


@contextmanager
def noted() -> Iterator[tuple[Server, Path]]:
    """A server, and the file in which it notes its pieces."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "pieces")
        path.touch()
        with served(program=("tests.bench.pieces", str(path))) as server:
            yield server, path


def ask(server: Server, sent: Sent) -> tuple[int, bytes]:
    """The code and body of the answer to one request on a connection of its own."""
    method, path, body, media = sent
    if method == "PUT":  # of custom kinds, which must say what they replace
        _, known = ask(server, ("GET", path, None, media))
        revision = json.loads(known)["metadata"].get("resourceVersion", "")
        body = {**body, "metadata": {**body["metadata"], "resourceVersion": revision}}
    text = body if isinstance(body, str) else b"" if body is None else json.dumps(body)
    headers = server.headers({"Content-Type": media} if body is not None else {})
    if media.startswith(">"):
        headers["Accept"] = media[1:]
    connection = server.connect(timeout_s=300)
    try:
        connection.request(method, path, text, headers)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def longest_of(path: Path) -> dict[str, float]:
    """The longest noted pieces, by the requests that wait for them (`tests.bench.pieces`)."""
    found = dict.fromkeys(("all", "writes"), 0.0)
    for line in path.read_text().splitlines():
        waiting, ms = line.split()
        found[waiting] = max(found[waiting], float(ms))
    return found


def longest_ms(server: Server, path: Path, form: Heavy) -> tuple[dict[str, float], list[int]]:
    """The longest pieces of the measured requests, by the requests that wait, and the codes."""
    codes = [asked(server, sent) for sent in form.before]
    sleep(SETTLED_S)
    path.write_text("")
    codes = [*codes[:3], *(asked(server, sent) for sent in form.sent)]
    sleep(SETTLED_S)
    return longest_of(path), codes


def asked(server: Server, sent: Sent) -> int:
    """The code of the answer to one request; after a new definition, its kind is served."""
    code, text = ask(server, sent)
    if sent[:2] == ("POST", DEFINITIONS) and code == 201:
        [plural] = re.findall(r'"names":\{"plural":"(\w+)"', text.decode())
        until_s = monotonic() + SERVED_S
        while ask(server, ("GET", place(plural), None, N.media_json))[0] != 200:
            assert monotonic() < until_s, f"{plural} are not served"
            sleep(0.05)
    return code


def main() -> int:
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    worst = 0.0
    print(machine())
    for part in PARTS:
        if wanted and not wanted.startswith(part.__name__) and wanted not in part.__name__:
            continue
        with noted() as (server, path):
            for form in part():
                found, codes = longest_ms(server, path, form)
                took_ms = max(found.values())
                worst = max(worst, took_ms)
                mark = "  TOO LONG" if took_ms > PIECE_MS_MAX else ""
                print(
                    f"{found['all']:7.1f} {found['writes']:7.1f} ms  {form.name}: {codes}{mark}", flush=True
                )
            print(server.log())
    print(f"longest piece {worst:.1f} ms")
    return 0 if worst <= PIECE_MS_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
