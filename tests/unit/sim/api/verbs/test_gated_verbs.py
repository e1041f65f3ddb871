"""What gates of an API server change about writes."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address

from sim.ident import NAMES
from sim.options.features.gates import SERVER_SIDE_APPLY, STATIC_BAND
from tests.unit.sim.api.golden_api import Api

MAPS = "/api/v1/namespaces/golden-ns/configmaps"
SERVICES = "/api/v1/namespaces/golden-ns/services"
APPLY = NAMES["kubernetes"].media_apply_patch


def api(*gates: str, **settings: str) -> Api:
    made = Api()
    made.registry = replace(made.registry, gates=gates, **settings)
    return made


def test_no_field_has_an_owner_while_server_side_apply_is_off() -> None:
    """To see it fail: let `Writer.tracks` be always True."""
    given = {"metadata": {"name": "a"}, "data": {"x": "y"}}
    owner = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    stated = {**given, "metadata": {"name": "a", "managedFields": [{**owner, "fieldsV1": {"f:data": {}}}]}}
    for asked, owned in ((api(), True), (api(SERVER_SIDE_APPLY), False)):
        made = [asked.ask("POST", MAPS, given), asked.ask("PUT", f"{MAPS}/a", stated)]
        assert [bool(reply.item and reply.item.managed) for reply in made] == [owned, owned]


def test_apply_is_an_unknown_form_while_it_is_off() -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    refused = api(SERVER_SIDE_APPLY).ask("PATCH", f"{MAPS}/a?fieldManager=m", body, APPLY)
    assert (refused.code, refused.message) == (415, "415: Unsupported Media Type")
    text = api(SERVER_SIDE_APPLY).ask("PATCH", f"{MAPS}/a", body, "foo/bar").message
    assert text.endswith("application/merge-patch+json, application/strategic-merge-patch+json")


def test_first_addresses_are_given_last_while_the_static_band_exists() -> None:
    """Of 30 addresses 16 are left to Services that name theirs."""
    body = {"metadata": {"generateName": "s-"}, "spec": {"ports": [{"port": 1}]}}
    low = {}
    for gates in ((), (STATIC_BAND,)):
        asked = api(*gates, service_cidr="10.9.0.0/27")
        found = [asked.ask("POST", SERVICES, body).obj["spec"]["clusterIP"] for _ in range(14)]
        low[gates] = sum(int(IPv4Address(ip)) % 256 <= 16 for ip in found)
    assert low[()] == 0 < low[STATIC_BAND,]
