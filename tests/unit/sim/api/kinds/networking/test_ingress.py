"""Ingresses: default class and table."""

from sim.api.kinds.tables import row
from sim.api.scheme.scheme import Scheme
from sim.ident import NAMES
from tests.unit.sim.api.golden_api import Api

N = NAMES["kubernetes"]

SCHEME = Scheme(N)

GROUP = "/apis/networking.k8s.io/v1"

CLASSES = f"{GROUP}/ingressclasses"

INGRESSES = f"{GROUP}/namespaces/golden-ns/ingresses"

BACKEND = {"service": {"name": "s", "port": {"number": 80}}}

DEFAULT = {"ingressclass.kubernetes.io/is-default-class": "true"}


def ingress(name, annotations=None, **spec):
    return {
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {"defaultBackend": BACKEND, **spec},
    }


def test_ingress_without_class_gets_the_default_class():
    api = Api()
    assert "ingressClassName" not in api.ask("POST", INGRESSES, ingress("a")).obj["spec"]
    for name in ("z", "d"):
        body = {"metadata": {"name": name, "annotations": DEFAULT}, "spec": {"controller": "x.y/z"}}
        assert api.ask("POST", CLASSES, body).code == 201
    made = api.ask("POST", INGRESSES, ingress("b")).obj
    assert made["spec"]["ingressClassName"] == "d"  # both are equally old
    assert made["status"] == {"loadBalancer": {}}
    own = api.ask("POST", INGRESSES, ingress("c", ingressClassName="own")).obj
    assert own["spec"]["ingressClassName"] == "own"
    old = api.ask("POST", INGRESSES, ingress("e", {"kubernetes.io/ingress.class": "x"})).obj
    assert "ingressClassName" not in old["spec"]


def test_ingress_row_shows_hosts_and_class():
    hosts = [{"host": f"{name}.example.com"} for name in "abcde"]
    shown = ingress("many", rules=hosts, tls=[{}])
    shown["metadata"]["creationTimestamp"] = "2022-08-23T00:00:00Z"
    cells = row(SCHEME.resource("ingresses"), shown, 0, N)["cells"]
    assert cells[:5] == [
        "many",
        "<none>",
        "a.example.com,b.example.com,c.example.com + 2 more...",
        "",
        "80, 443",
    ]


def test_a_deletion_with_another_uid_names_the_group_in_which_the_kind_began():
    api = Api()
    ingress = {"metadata": {"name": "a"}, "spec": {"defaultBackend": BACKEND}}
    assert api.ask("POST", INGRESSES, ingress).code == 201
    refused = api.ask("DELETE", f"{INGRESSES}/a", {"preconditions": {"uid": "x"}})
    assert (refused.code, refused.body["details"]["group"]) == (409, "extensions")
