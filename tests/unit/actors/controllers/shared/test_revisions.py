"""ControllerRevisions as objects to create."""

from __future__ import annotations

import msgspec

from actors.controllers.shared.pod_template_hash import revision_data
from actors.controllers.shared.revisions import make_revision


def test_revision_data_are_in_the_order_of_gos_encoder() -> None:
    owner = {"metadata": {"name": "w", "namespace": "n"}}
    template = {
        "spec": {"restartPolicy": "Always", "containers": [{"name": "c", "image": "i"}]},
        "metadata": {},
    }
    data = make_revision(owner, {}, "w-1", {}, revision_data(template), 1)["data"]
    assert msgspec.json.encode(data) == (
        b'{"spec":{"template":{"$patch":"replace","metadata":{"creationTimestamp":null},'
        b'"spec":{"containers":[{"image":"i","name":"c"}],"restartPolicy":"Always"}}}}'
    )
