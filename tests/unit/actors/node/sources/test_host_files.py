"""The hostname of a pod and its hosts file."""

from __future__ import annotations

from typing import Any

import pytest

from actors.node.sources.host_files import LOCAL, MANAGED, hosts_file, kernel_name


def pod(name: str = "web-0", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "shop"}, "spec": spec}


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (pod(), "web-0"),
        (pod(hostname="db", subdomain="all"), "db"),
        (pod(hostname="db", subdomain="all", setHostnameAsFQDN=True), "db.all.shop.svc.home"),
        (pod(setHostnameAsFQDN=True), "web-0"),
        (pod("x" * 62 + "-.y"), "x" * 62),
        (pod(hostNetwork=True, hostname="db"), "node-1"),
    ],
)
def test_hostname_is_that_of_the_spec_or_the_pods_name(given: dict[str, Any], name: str) -> None:
    assert kernel_name(given, "home", "node-1") == name


def test_hosts_file_has_the_pods_names_and_the_aliases_of_its_spec() -> None:
    aliases = [{"ip": "1.2.3.4", "hostnames": ["a", "b"]}]
    named = pod(hostname="db", subdomain="all", hostAliases=aliases)
    own = "10.0.0.2\tdb.all.shop.svc.home\tdb\n"
    added = "\n# Entries added by HostAliases.\n1.2.3.4\ta\tb\n"
    assert hosts_file(named, ["10.0.0.2"], "home") == f"{MANAGED}{LOCAL}{own}{added}"
    assert hosts_file(pod(), ["10.0.0.2"], "home").endswith("10.0.0.2\tweb-0\n")


def test_hosts_file_of_a_pod_in_the_nodes_network_lacks_its_name() -> None:
    text = hosts_file(pod(hostNetwork=True), ["10.0.0.2"], "home")
    assert text.startswith("# Kubernetes-managed hosts file (host network).\n127.0.0.1\tlocalhost\n")
    assert "web-0" not in text
