"""What the cluster's DNS answers."""

from __future__ import annotations

import pytest

from actors.node.programs.network.dns import Zone, answer
from tests.unit.actors.node.programs.network.town import Town, endpoint, service, slice_of

CLUSTER = "svc.cluster.local"


def zone() -> Zone:
    town = Town()
    town.all = [
        service("web"),
        service("db", "None", ports=[{"name": "sql", "port": 5432, "protocol": "TCP"}]),
        service("gone", "None"),
        service("out", "", type="ExternalName", externalName="example.com"),
    ]
    named = endpoint("10.244.0.7", hostname="db-0")
    town.by_name = {
        "db": [
            slice_of(
                named, endpoint("10.244.0.8"), endpoint("10.244.0.9", ready=False), port=5432, name="sql"
            )
        ],
        "web": [slice_of(endpoint("10.244.0.2"))],
    }
    return Zone("cluster.local", town.service, town.services, town.slices, town.has_namespace)


@pytest.mark.parametrize(("name", "kind", "code", "values"), [
    (f"web.default.{CLUSTER}.", "A", "NOERROR", ["10.96.0.80"]),
    (f"WEB.default.{CLUSTER}", "A", "NOERROR", ["10.96.0.80"]),
    (f"web.default.{CLUSTER}", "AAAA", "NOERROR", []),
    (f"web.other.{CLUSTER}", "A", "NXDOMAIN", []),
    (f"nobody.default.{CLUSTER}", "A", "NXDOMAIN", []),
    (f"default.{CLUSTER}", "A", "NOERROR", []),
    (f"db.default.{CLUSTER}", "A", "NOERROR", ["10.244.0.7", "10.244.0.8"]),
    (f"db-0.db.default.{CLUSTER}", "A", "NOERROR", ["10.244.0.7"]),
    (f"10-244-0-8.db.default.{CLUSTER}", "A", "NOERROR", ["10.244.0.8"]),
    (f"db-9.db.default.{CLUSTER}", "A", "NXDOMAIN", []),
    (f"gone.default.{CLUSTER}", "A", "NXDOMAIN", []),
    (f"out.default.{CLUSTER}", "A", "NOERROR", ["example.com."]),
    (f"_http._tcp.web.default.{CLUSTER}", "SRV", "NOERROR", [f"0 100 80 web.default.{CLUSTER}."]),
    (f"_sql._tcp.db.default.{CLUSTER}", "SRV", "NOERROR",
     [f"0 50 5432 10-244-0-8.db.default.{CLUSTER}.", f"0 50 5432 db-0.db.default.{CLUSTER}."]),
    (f"_http._udp.web.default.{CLUSTER}", "SRV", "NXDOMAIN", []),
    ("10-244-0-2.default.pod.cluster.local", "A", "NOERROR", ["10.244.0.2"]),
    ("10-244-0-2.nowhere.pod.cluster.local", "A", "NXDOMAIN", []),
    ("80.0.96.10.in-addr.arpa.", "PTR", "NOERROR", [f"web.default.{CLUSTER}."]),
    ("7.0.244.10.in-addr.arpa.", "PTR", "NOERROR", [f"db-0.db.default.{CLUSTER}."]),
    ("9.9.9.9.in-addr.arpa.", "PTR", "NXDOMAIN", []),
    ("dns-version.cluster.local", "TXT", "NOERROR", ['"1.1.0"']),
    ("example.com", "A", "SERVFAIL", []),
])  # fmt: skip
def test_a_name_has_the_records_that_the_specification_says(
    name: str, kind: str, code: str, values: list[str]
) -> None:
    found = answer(zone(), name, kind)
    assert found.code == code
    assert sorted(record.value for record in found.records) == sorted(values)
