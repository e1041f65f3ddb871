"""Discovery documents."""

from pathlib import Path

from sim.api.schema.kind import VERBS
from sim.api.scheme.discovery import api_group, api_group_list, api_resource_list, api_versions, root_paths
from sim.api.scheme.scheme import Scheme
from sim.ident import NAMES

SCHEME = Scheme(NAMES["kubernetes"])


def _table():
    """The rows of `discovery_table.txt` by group version, each as in an APIResourceList."""
    found, rows, off = {}, [], set()
    for line in Path(__file__).with_name("discovery_table.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        if not line.startswith(" "):
            name, _, mark = line.partition(" ")
            rows = found[name] = []
            off |= {name} if mark else set()
            continue
        name, kind, namespaced, verbs, short, categories, of = line.split()
        group, _, version = of.rpartition("/")
        rows.append(
            {
                "name": name,
                "singularName": "",
                "namespaced": namespaced == "y",
                "kind": kind,
                "verbs": [VERBS[letter] for letter in verbs],
                **({} if short == "-" else {"shortNames": short.split(",")}),
                **({} if categories == "-" else {"categories": categories.split(",")}),
                **({} if of == "-" else {"group": group, "version": version}),
            }
        )
    return found, off


def _listed(scheme):
    """The same of a scheme."""
    found = {}
    for r in scheme.resources:
        listed = api_resource_list(scheme, r.group, r.version)
        assert listed is not None
        rows = [{k: v for k, v in row.items() if k != "storageVersionHash"} for row in listed["resources"]]
        found[r.api_version] = rows
    return found


def test_discovery_lists_what_upstream_lists_and_nothing_else():
    table, off = _table()
    assert (len(table) - len(off), sum(map(len, table.values())) - 3) == (24, 105)
    assert _listed(SCHEME) == {name: rows for name, rows in table.items() if name not in off}
    assert _listed(Scheme(NAMES["kubernetes"], frozenset())) == table


def test_groups_come_in_the_order_of_their_priority():
    names = [group["name"] for group in api_group_list(SCHEME)["groups"]]
    assert names == [
        "apiregistration.k8s.io",
        "apps",
        "events.k8s.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "autoscaling",
        "batch",
        "certificates.k8s.io",
        "networking.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
        "storage.k8s.io",
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "scheduling.k8s.io",
        "coordination.k8s.io",
        "node.k8s.io",
        "discovery.k8s.io",
        "flowcontrol.apiserver.k8s.io",
    ]


def test_a_group_names_its_preferred_version():
    apps = api_group(SCHEME, "apps")
    assert apps is not None and apps["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}
    assert api_group(SCHEME, "nope") is None


def test_a_group_version_lists_resources_and_subresources_by_name():
    apps = api_resource_list(SCHEME, "apps", "v1")
    assert apps is not None and apps["apiVersion"] == "v1"
    rows = {row["name"]: row for row in apps["resources"]}
    assert list(rows) == sorted(rows)
    assert rows["deployments/scale"] == {
        "name": "deployments/scale",
        "singularName": "",
        "namespaced": True,
        "group": "autoscaling",
        "version": "v1",
        "kind": "Scale",
        "verbs": ["get", "patch", "update"],
    }
    assert rows["deployments"]["shortNames"] == ["deploy"]
    assert api_resource_list(SCHEME, "apps", "v2") is None


def test_the_legacy_group_version_answers_without_api_version():
    core = api_resource_list(SCHEME, "", "v1")
    assert core is not None and "apiVersion" not in core
    pods = next(row for row in core["resources"] if row["name"] == "pods")
    assert pods["storageVersionHash"] == "xPOwRZ+Yhw8="
    namespaces = next(row for row in core["resources"] if row["name"] == "namespaces")
    assert "deletecollection" not in namespaces["verbs"]


def test_the_root_lists_every_path():
    paths = root_paths(SCHEME, ("/version",))["paths"]
    assert paths == sorted(paths) and {"/api/v1", "/apis/apps/v1", "/version"} <= set(paths)
    assert api_versions("h:1")["serverAddressByClientCIDRs"][0]["serverAddress"] == "h:1"


def test_subresources_are_listed_with_their_kinds_and_verbs():
    core = api_resource_list(SCHEME, "", "v1")
    assert core is not None
    rows = {row["name"]: row for row in core["resources"]}
    assert {"pods/log", "pods/eviction", "nodes/status"} <= rows.keys()
    assert (rows["pods/exec"]["kind"], rows["pods/exec"]["verbs"]) == ("PodExecOptions", ["create", "get"])
    proxied = ["create", "delete", "get", "patch", "update"]
    assert (rows["nodes/proxy"]["kind"], rows["nodes/proxy"]["verbs"]) == ("NodeProxyOptions", proxied)
