"""What is counted of outside requests."""

from sim.wire.http.metrics import Counts
from sim.wire.http.routing import attributes


def lines(counts: Counts) -> list[str]:
    return [line for line in counts.lines() if not line.startswith("#")]


def test_requests_that_are_alike_are_one_series():
    counts = Counts()
    asked = attributes("GET", "/api/v1/namespaces/a/pods", {})
    for _ in range(3):
        counts.answered(asked, 200, "", {})
    assert lines(counts) == [
        'apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",'
        'scope="namespace",subresource="",verb="LIST",version="v1"} 3'
    ]


def test_an_apply_is_told_from_a_patch_and_a_path_is_no_resource():
    counts = Counts()
    patch = attributes("PATCH", "/apis/apps/v1/namespaces/a/deployments/b/scale", {})
    counts.answered(patch, 200, "application/apply-patch+yaml", {"dryRun": "All"})
    counts.answered(attributes("GET", "/livez", {}), 200, "", {})
    assert [line.partition("{")[2] for line in lines(counts)] == [
        'code="200",component="apiserver",dry_run="",group="",resource="",scope="",subresource="/livez",verb="GET",'
        'version=""} 1',
        'code="200",component="apiserver",dry_run="All",group="apps",resource="deployments",scope="resource",'
        'subresource="scale",verb="APPLY",version="v1"} 1',
    ]


def test_what_a_client_writes_cannot_break_a_line():
    counts = Counts()
    counts.answered(attributes("GET", "/livez", {}), 200, "", {"dryRun": 'a"\n\\'})
    assert 'dry_run="a\\"\\n\\\\"' in lines(counts)[0]
