"""Metrics of the requests that came from outside."""

from prometheus_client.parser import text_string_to_metric_families

from sim.kernel.meters import Meters
from sim.wire.http.measures.counts import Counts
from sim.wire.http.measures.families import BOUNDS, families
from sim.wire.http.measures.text import text_format
from sim.wire.http.routing import attributes


def page(counts: Counts) -> str:
    shown = Meters(BOUNDS)
    counts.show(shown)
    return text_format(families("apiserver", counts.meters, shown))


def series(counts: Counts) -> list[str]:
    lines = page(counts).splitlines()
    return [line for line in lines if line.startswith("apiserver_request_total{")]


def test_equal_requests_are_counted_in_one_series() -> None:
    counts = Counts()
    request = attributes("GET", "/api/v1/namespaces/a/pods", {})
    for _ in range(3):
        counts.answered(request, 200, "", {})
    assert series(counts) == [
        'apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",'
        'scope="namespace",subresource="",verb="LIST",version="v1"} 3'
    ]


def test_apply_has_its_own_verb_and_a_path_has_no_resource() -> None:
    counts = Counts()
    patch = attributes("PATCH", "/apis/apps/v1/namespaces/a/deployments/b/scale", {})
    counts.answered(patch, 200, "application/apply-patch+yaml", {"dryRun": "All"})
    counts.answered(attributes("GET", "/livez", {}), 200, "", {})
    counts.answered(attributes("GET", "/version", {}), 200, "", {})  # not measured
    assert [line.partition("{")[2] for line in series(counts)] == [
        'code="200",component="",dry_run="",group="",resource="",scope="",subresource="/livez",verb="GET",'
        'version=""} 1',
        'code="200",component="apiserver",dry_run="All",group="apps",resource="deployments",scope="resource",'
        'subresource="scale",verb="APPLY",version="v1"} 1',
    ]


def test_label_values_from_clients_are_escaped() -> None:
    counts = Counts()
    counts.answered(attributes("GET", "/livez", {}), 200, "", {"dryRun": 'a"\n\\'})
    assert 'dry_run="a\\"\\n\\\\"' in series(counts)[0]
    found = {each.name: each for each in text_string_to_metric_families(page(counts))}
    assert found["apiserver_request"].samples[0].labels["dry_run"] == 'a"\n\\'


def test_durations_and_sizes_fall_into_the_buckets_of_their_family() -> None:
    counts = Counts()
    request = attributes("GET", "/api/v1/pods", {})
    counts.answered(request, 200, "", {}, 0.3, 5000)
    counts.answered(request, 504, "", {}, 61.0, 10)
    found = {each.name: each for each in text_string_to_metric_families(page(counts))}

    def buckets(name: str) -> dict[str, float]:
        samples = found[name].samples
        return {each.labels["le"]: each.value for each in samples if each.name == f"{name}_bucket"}

    took = buckets("apiserver_request_duration_seconds")
    assert (took["0.2"], took["0.4"], took["60"], took["+Inf"]) == (0, 1, 1, 2)
    sizes = buckets("apiserver_response_sizes")
    assert (sizes["1000"], sizes["10000"]) == (1, 2)
    (ended,) = found["apiserver_request_terminations"].samples
    assert (ended.labels["code"], ended.value) == ("504", 1)


def test_family_without_series_is_absent_and_each_text_states_its_stability() -> None:
    counts = Counts()
    counts.authenticated("failure", "", 0.0)
    text = page(counts)
    assert "apiserver_request_total" not in text
    helps = [line for line in text.splitlines() if line.startswith("# HELP")]
    assert helps and all("[ALPHA]" in line or "[STABLE]" in line for line in helps)
    assert 'authentication_attempts{result="failure"} 1' in text
