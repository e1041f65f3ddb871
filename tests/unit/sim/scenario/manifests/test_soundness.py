"""Errors of manifests before a run, compared with recorded answers of a real server.

No manifest that the server accepted is an error; nearly all that it refused for their fields are.

To see it fail: leave a field out of `ALLOCATED`, the uid out of `check`, or the defaults out of
`completed`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from sim.api.schema.resource import Resource
from sim.api.scheme.scheme import Scheme
from sim.errors import InputError
from sim.ident import NAMES
from sim.scenario.manifests.soundness import Unsound, check, completed, parts_of, typed
from sim.scenario.read.source import Document
from tests.unit.sim.api.golden_api import GOLDEN, route

WORDS = NAMES["kubernetes"]
# no manifest has these kinds
LATER = ("subjectaccessreviews", "localsubjectaccessreviews", "bindings")


def created() -> Iterator[tuple[Resource, dict[str, Any], int, str]]:
    """Recorded create requests: resource, manifest, the code of the answer, and the transcript."""
    scheme = Scheme(WORDS)
    for file in sorted(GOLDEN.glob("*.json")):
        for transcript in json.loads(file.read_text())["transcripts"]:
            for step in transcript["steps"]:
                method, _, path = step["request"]["do"].partition(" ")
                body = json.loads(json.dumps(step["request"].get("body")).replace("$(ns)", "default"))
                if method != "POST" or not isinstance(body, dict) or "$(" in json.dumps(body):
                    continue
                path = path.partition("?")[0]
                if len(path.strip("/").split("/")) < (3 if path.startswith("/api/") else 4):
                    continue
                group, version, _, plural, name, _ = route(path)
                resource = scheme.find(group, version, plural)
                if resource is None or name or plural in LATER or not _named(body):
                    continue
                body = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
                yield resource, body, step.get("status", 0), f"{file.name}: {transcript['id']}"


def _named(body: dict[str, Any]) -> bool:
    metadata = body.get("metadata")
    return isinstance(metadata, dict) and bool(metadata.get("name"))


@pytest.mark.skipif(not GOLDEN.exists(), reason="the recordings are not beside the checkout")
def test_soundness_agrees_with_recorded_answers_of_a_real_server() -> None:
    answers: Counter[tuple[int, bool]] = Counter()
    for resource, manifest, code, where in created():
        try:
            obj, problems = typed(resource, manifest)
        except Unsound:
            continue
        if problems:
            continue
        try:
            check(resource, completed(resource, obj, WORDS), WORDS, Document("m.yaml", manifest), ())
            sound = True
        except InputError as error:
            sound = False
            assert code != 201, f"{where}: {error}"
        answers[code, sound] += 1
    assert answers[201, True] >= 450
    # The rest: what a request's options say, what a cluster already holds, and rules that are not
    # ours yet.
    assert answers[422, False] >= 560
    assert answers[422, True] <= 45


def test_field_of_an_error_is_split_into_parts() -> None:
    assert parts_of("spec.ports[0].name") == ["spec", "ports", 0, "name"]
    assert parts_of("metadata.labels[a.b/c]") == ["metadata", "labels", "a.b/c"]
    assert parts_of("spec.x[...]") == ["spec", "x"]
