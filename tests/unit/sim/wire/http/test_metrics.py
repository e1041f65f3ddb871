"""Metrics of the requests that came from outside."""

from prometheus_client.parser import text_string_to_metric_families

from sim.wire.http.metrics import Counts, text_format
from sim.wire.http.routing import attributes


def series(counts: Counts) -> list[str]:
    return [line for line in text_format(counts.families()).splitlines() if not line.startswith("#")]


def test_equal_requests_are_counted_in_one_series() -> None:
    counts = Counts()
    request = attributes("GET", "/api/v1/namespaces/a/pods", {})
    for _ in range(3):
        counts.answered(request, 200, "", {})
    assert series(counts) == [
        'apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",'
        'scope="namespace",subresource="",verb="LIST",version="v1"} 3.0'
    ]


def test_apply_has_its_own_verb_and_a_path_has_no_resource() -> None:
    counts = Counts()
    patch = attributes("PATCH", "/apis/apps/v1/namespaces/a/deployments/b/scale", {})
    counts.answered(patch, 200, "application/apply-patch+yaml", {"dryRun": "All"})
    counts.answered(attributes("GET", "/livez", {}), 200, "", {})
    assert [line.partition("{")[2] for line in series(counts)] == [
        'code="200",component="apiserver",dry_run="",group="",resource="",scope="",subresource="/livez",verb="GET",'
        'version=""} 1.0',
        'code="200",component="apiserver",dry_run="All",group="apps",resource="deployments",scope="resource",'
        'subresource="scale",verb="APPLY",version="v1"} 1.0',
    ]


def test_label_values_from_clients_are_escaped() -> None:
    counts = Counts()
    counts.answered(attributes("GET", "/livez", {}), 200, "", {"dryRun": 'a"\n\\'})
    assert 'dry_run="a\\"\\n\\\\"' in series(counts)[0]
    (requests, _) = text_string_to_metric_families(text_format(counts.families()))
    assert requests.samples[0].labels["dry_run"] == 'a"\n\\'
