"""The names and the order of health checks."""

from sim.ident import NAMES
from sim.options.features.gates import IDENTITY, OPENAPI_V3, STORAGE_VERSIONS
from sim.wire.http.pages.health import HOOK, checks_of

NAMED = NAMES["kubernetes"]
PLAIN = checks_of(NAMED, True)["readyz"]


def between(found: tuple[str, ...]) -> list[str]:
    return [name.removeprefix(HOOK) for name in found if name not in PLAIN]


def place(found: tuple[str, ...], name: str) -> str:
    """The check before one."""
    return found[found.index(f"{HOOK}{name}") - 1].removeprefix(HOOK)


def test_without_fairness_the_limit_in_flight_has_a_hook():
    found = checks_of(NAMED, False)["livez"]
    assert between(found) == ["max-in-flight-filter"]
    assert f"{HOOK}priority-and-fairness-config-producer" in found
    assert place(found, "max-in-flight-filter") == "generic-apiserver-start-informers"


def test_gates_and_certificates_add_hooks_in_upstreams_places():
    found = checks_of(NAMED, True, (IDENTITY, STORAGE_VERSIONS, OPENAPI_V3), proxied=True)["healthz"]
    lease = "start-kube-apiserver-identity-lease"
    assert between(found) == [
        f"{lease}-controller",
        f"{lease}-garbage-collector",
        "aggregator-reload-proxy-client-cert",
        "built-in-resources-storage-version-updater",
    ]
    assert place(found, f"{lease}-controller") == "start-cluster-authentication-info-controller"
    assert place(found, "kube-apiserver-autoregistration") == "built-in-resources-storage-version-updater"
    assert f"{HOOK}apiservice-openapiv3-controller" not in found
    assert between(checks_of(NAMED, True, (STORAGE_VERSIONS,))["healthz"]) == []
