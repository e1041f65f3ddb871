"""The table of FIDELITY.md counts every recorded request, and says what was left out."""

from __future__ import annotations

import json
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from tests.bench import fidelity
from tests.bench.fidelity import BEGIN, END, Row, inserted, resource_of, resources_in, table

ROOT = Path(__file__).resolve().parents[4]


def test_table_shows_each_recording_and_the_sums() -> None:
    rows = [
        Row("10-a", recorded=4, sent=4, extra=1, answers=3, status=3, body=2, whole=2, unserved=1),
        Row("61-auth", recorded=6, sent=5, extra=2, answers=5, unscored=1, status=1, body=1, whole=0),
    ]
    lines = table(rows, ["71-b"]).splitlines()
    assert lines[2:5] == [
        "| 10-a | 4 | 3 | 100.0% | 66.7% | 66.7% | 1 | 1 |",
        "| 61-auth | 5 of 6 | 5 | 20.0% | 20.0% | 0.0% | 5 | 0 |",
        "| total | 9 of 10 | 8 | 50.0% | 37.5% | 25.0% | 6 | 1 |",
    ]
    assert lines[6].startswith("9 of 10 recorded requests were sent, and 3 more")
    assert lines[7].startswith("8 answers were compared: 2 agree, 6 differ. 1 ")
    assert lines[8] == "Left out: 71-b."


def test_table_is_written_between_its_marks_only() -> None:
    document = f"a\n{BEGIN}\nold\n{END}\nb\n"
    assert inserted(document, "new") == f"a\n{BEGIN}\nnew\n{END}\nb\n"
    with pytest.raises(ValueError, match="has no"):
        inserted("a\nb\n", "new")


def test_fidelity_document_has_the_marks_of_the_table() -> None:
    document = (ROOT / "FIDELITY.md").read_text(encoding="utf-8")
    _, _, rest = document.partition(BEGIN)
    made = rest.partition(END)[0]
    assert inserted(document, made.strip("\n")) == document
    assert "| 61-auth |" in made and "| 51-admission-alone |" in made


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        ("/api/v1/namespaces/$(ns)/pods/a?watch=1", ("v1", "pods")),
        ("/api/v1/namespaces/a", ("v1", "namespaces")),
        ("/apis/apps/v1/namespaces/a/deployments", ("apps/v1", "deployments")),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/a",
            ("rbac.authorization.k8s.io/v1", "clusterroles"),
        ),
        ("/apis/apps/v1", ("apps/v1", "")),
        ("/version", ("", "")),
    ],
)
def test_resource_of_a_path_is_named_as_discovery_names_it(path: str, resource: tuple[str, str]) -> None:
    assert resource_of(path) == resource


def test_discovery_documents_give_resources_without_their_subresources() -> None:
    names = [{"name": "pods"}, {"name": "pods/status"}]
    documents = [
        {"kind": "APIResourceList", "groupVersion": "v1", "resources": names},
        {"kind": "APIGroupList"},
        None,
    ]
    assert resources_in(documents) == {("v1", "pods")}


REPLAY = """
def ask(client, step, env):
    return client.call("GET", step["do"], {}, None, "admin")

def play(client, transcript, tag):
    ask(client, {"do": "set-up"}, {})
    return {"steps": [
        {"request": s, "status": (a := ask(client, s, {}))[0], "headers": a[1], "body": a[2]}
        for s in transcript["steps"]
    ]}

class Pairing:
    pass

def without_managed_fields(x):
    return x

def differences(want, got, pairing):
    return [] if want == got else ["other"]
"""


class Client:
    """Answers each path with itself; does not end the answer of one."""

    def call(self, method: str, path: str, *_: Any) -> tuple[int, dict[str, str], Any]:
        if path == "GET /hangs":
            raise HTTPException("nothing came")
        return 200, {}, path


def test_request_without_an_answer_is_a_difference_and_the_next_is_sent(tmp_path: Path) -> None:
    (tmp_path / "replay.py").write_text(REPLAY)
    paths = ["GET /a", "GET /hangs", "GET /b", "GET /apis/x/v1/ys", "GET /unscored", "GET /silent"]
    steps: list[dict[str, Any]] = [
        {"request": {"do": path}, "status": 200, "headers": {}, "body": path} for path in paths
    ]
    steps[3]["body"] = "another"
    steps[4]["unscored"] = steps[5]["request"]["silent"] = True
    row = Row("10-a")
    transcript = json.loads(json.dumps({"id": "t", "steps": steps}))
    fidelity.send_transcript(
        fidelity.replay_module(tmp_path), Client(), transcript, row, missing={("x/v1", "ys")}
    )
    assert (row.recorded, row.sent, row.extra) == (6, 6, 1)
    assert (row.answers, row.unscored, row.status, row.whole, row.unserved) == (4, 1, 3, 2, 1)
    assert [line.partition(":")[0] for line in row.different] == ["10-a t answer 1", "10-a t answer 3"]
