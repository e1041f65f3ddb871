"""A failing document is shrunk by runs, and written as a file that fails in the same way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from sim.app.hunt.judging import planned
from sim.app.hunt.reducing import Explanation, explained, smallest
from sim.app.hunt.story import LINES_MAX, story, story_of_test
from sim.app.run import run_plan
from sim.app.study.outcome import perform
from sim.app.study.pool import processes
from sim.app.study.summary import jobs_of
from sim.scenario.compile import load
from tests.cluster.hunt.test_judging import OUTAGE, document

pytestmark = pytest.mark.slow

STALL = {"at": "40s", "name": "stall", "stall": {"actor": "scheduler-0"}, "for": "17.5s"}
CAUSE = "fail power-loss > unheard > update nodes status > nodes stay"


def _explanation(of: Any) -> Explanation:
    found = perform(explained(of))
    assert isinstance(found, Explanation)
    return found


def test_failure_is_shrunk_to_one_fault_by_the_same_cause() -> None:
    small = smallest(document(STALL, OUTAGE), CAUSE, processes(2), budget=80, batch=2)
    spec = small.document["spec"]
    assert small.finished
    assert [step["name"] for step in spec["timeline"]] == ["outage"]
    assert "replicas" not in str(spec)
    assert _explanation(small.document).keys == (CAUSE,)


def test_what_has_to_be_there_is_not_left_out() -> None:
    """To see it fail: do not run the document without its drawn steps."""
    deleted = {"at": "1m", "name": "loss", "delete": {"resource": "pods", "selector": "app=web"}}
    large = document({"at": "50s", "name": "still", "stall": {"actor": "controller-manager-0"}}, deleted)
    condition = "at least 3 pods labelled app=web are ready"
    large["spec"]["expect"] = [{"name": "ready", "always": condition, "after": "2m30s"}]
    small = smallest(large, "ready", processes(2), budget=60, batch=2).document["spec"]
    assert _explanation(large).keys == ("ready",)
    assert [step["name"] for step in small["timeline"]] == ["still", "loss"]
    assert [each["kind"] for each in small["objects"]] == ["Deployment"]


def test_failure_is_not_only_that_the_run_ends_too_early() -> None:
    """To see it fail: do not run the document with its first duration."""
    outage = {"at": "30s", "name": "outage", "fail": {"nodes": {}, "how": "power-loss"}}
    stall = {"at": "20s", "name": "stall", "stall": {"actor": "scheduler-0"}, "for": "30s"}
    large = document(outage, stall)
    pod = {"restartPolicy": "Never", "containers": [{"name": "work", "image": "r/work:1"}]}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "work"}}
    large["spec"] |= {
        "cluster": {"nodes": [{"count": 2, "runtime": {"exitAfter": "10s"}}]},
        "objects": [job | {"spec": {"completions": 4, "template": {"spec": pod}}}],
        "expect": [{"name": "made", "count": {"created": "pods"}, "atLeast": 4}],
    }
    (cause,) = _explanation(large).keys
    small = smallest(large, cause, processes(2), budget=60, batch=2).document
    assert [step["name"] for step in small["spec"]["timeline"]] == ["outage"]
    assert _explanation({**small, "spec": {**small["spec"], "duration": "3m"}}).keys == (cause,)


def test_story_is_a_file_that_fails_with_the_trace_it_names(tmp_path: Path) -> None:
    text = story(document(OUTAGE), CAUSE, before=document(STALL, OUTAGE), runs=33)
    file = tmp_path / "story.yaml"
    file.write_text(text)
    plan = load(file)
    result = trio.run(lambda: run_plan(plan))
    assert not result.ok
    assert f"trace {result.trace_sha256}" in text
    (pooled,) = processes(2)(jobs_of(plan, plan.seed, 1))
    assert pooled.sha256 == result.trace_sha256


def test_story_has_what_happens_in_comments_before_the_document() -> None:
    lines = story(document(OUTAGE), CAUSE, before=document(STALL, OUTAGE), runs=33).splitlines()
    comments = [line for line in lines if line.startswith("#")]
    assert lines[: len(comments)] == comments
    assert comments[0].startswith('# "nodes stay" fails: measured ')
    told = "\n".join(comments)
    assert 'step "outage": fail power-loss; nodes node-1\n' in told
    assert "has had no heartbeat of nodes/node-1 for 40" in told
    assert f"Cause: {CAUSE}" in told
    assert "Made in 33 runs of 2 steps, 2 nodes, 1 object, 3m; this is 1 step, 2 nodes, 1 object, 3m." in told
    assert len(comments) < 2 * LINES_MAX


def test_story_of_a_document_that_holds_says_so() -> None:
    assert story(document(), CAUSE).startswith("# Every expectation holds.\n")


def test_story_of_a_test_has_its_steps_and_what_they_did(tmp_path: Path) -> None:
    trace = tmp_path / "run.trace"
    trio.run(lambda: run_plan(planned(document(OUTAGE)), trace_file=trace))
    lines = story_of_test([OUTAGE], ["test_x fails: it broke"], trace, "Made by hand.").splitlines()
    assert lines == [
        "# test_x fails: it broke",
        "# What happens, by the virtual time of the test:",
        '#    1m00.000s              scenario  step "outage": fail power-loss; nodes node-1',
        "# Made by hand.",
        "timeline: [{at: 1m, name: outage, fail: {nodes: {name: node-1}, how: power-loss}}]",
    ]
