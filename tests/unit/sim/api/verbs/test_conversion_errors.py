"""Objects that upstream cannot convert, and the order of reports about a patched object."""

from __future__ import annotations

import pytest

from tests.unit.sim.api.golden_api import Api

SETS = "/apis/apps/v1/namespaces/golden-ns/daemonsets"
MAPS = "/api/v1/namespaces/golden-ns/configmaps"
GENERATION = "deprecated.daemonset.template.generation"


def daemon_set(generation: str) -> dict[str, object]:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"image": "i", "name": "c"}]}}
    return {
        "metadata": {"name": "w", "annotations": {GENERATION: generation}},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }


@pytest.mark.parametrize(("text", "why"), [("x", "invalid syntax"), ("9" * 20, "value out of range")])
def test_template_generation_that_is_no_number_is_refused(text: str, why: str) -> None:
    api = Api()
    refused = api.ask("POST", SETS, daemon_set(text))
    assert (refused.code, refused.message) == (
        400,
        'DaemonSet in version "v1" cannot be handled as a DaemonSet: '
        f'strconv.ParseInt: parsing "{text}": {why}',
    )
    assert api.ask("POST", SETS, daemon_set("3")).code == 201
    patch = {"metadata": {"annotations": {GENERATION: text}}}
    assert api.ask("PATCH", f"{SETS}/w", patch, "application/merge-patch+json").code == 422


def test_unknown_fields_of_a_merge_patch_are_reported_in_the_order_of_their_paths() -> None:
    api = Api()
    api.ask("POST", MAPS, {"metadata": {"name": "a"}})
    patch = {"metadata": {"zoo": 1}, "frob": 1, "aunt": 2}
    path = f"{MAPS}/a?fieldValidation=Strict"
    refused = api.ask("PATCH", path, patch, "application/merge-patch+json")
    assert 'unknown field "aunt", unknown field "frob", unknown field "metadata.zoo"' in refused.message
