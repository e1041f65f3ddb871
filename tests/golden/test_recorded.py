"""Five stories of a real control plane: a simulated one gives the same answers."""

from __future__ import annotations

import pytest
import trio

from tests.golden.recorded import FOLDER, STORIES, replayed, text_of

# Lines that may differ, by story, each with the reason.  There are none: times, uids and generated
# names, which differ in each run, are not in the texts.
MAY_DIFFER: dict[str, dict[str, str]] = {}


@pytest.mark.slow
@pytest.mark.parametrize("story", STORIES)
def test_simulated_cluster_answers_as_the_real_one(story: str) -> None:
    text = (FOLDER / f"{story}.txt").read_text(encoding="utf-8")
    known = MAY_DIFFER.get(story, {})
    made = [line for line in trio.run(replayed, text) if line not in known]
    assert made == [line for line in text.splitlines()[1:] if line not in known]


def test_each_recorded_story_is_beside_a_simulated_one() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == {*STORIES}
    assert all((FOLDER.parent / f"{story}.txt").exists() for story in STORIES)


def test_text_of_a_recording_keeps_fields_and_hides_what_is_drawn() -> None:
    step = {
        "request": {
            "do": "GET /api/v1/pods/a",
            "keep": ["/status"],
            "until": {"pointer": "/status", "exists": True},
        },
        "status": 200,
        "body": {
            "/status": {"phase": "Running", "startTime": "<time>"},
            "/metadata/uid": "<uid:4>",
            "/spec": None,
        },
    }
    assert text_of({"about": "a pod", "steps": [step]}).splitlines() == [
        "# a pod",
        "> GET /api/v1/pods/a until /status:exists",
        "< 200 /status /metadata/uid /spec",
        "    status.phase = Running",
        "    - spec",
    ]
