"""Validation that the kinds with a pod template share."""

from __future__ import annotations

from tests.unit.sim.api.kinds.samples import made, updated


def test_selector_must_match_the_template_and_never_change():
    for resource in ("deployments", "replicasets", "daemonsets"):
        old = made(resource)
        new = {**old, "spec": {**old["spec"], "selector": {"matchLabels": {"a": "c"}}}}
        assert (
            'spec.template.metadata.labels: Invalid value: map[string]string{"a":"b"}:'
            " `selector` does not match template `labels`"
        ) in updated(resource, new, old)
        assert any(
            "spec.selector: Invalid value: v1.LabelSelector{" in text for text in updated(resource, new, old)
        )
