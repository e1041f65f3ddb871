"""A document judged by a run: the hash is that of any run of it, and what it shows are features."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from msgspec import structs

from sim.app.hunt import judging
from sim.app.hunt.judging import TARGET, TRIALS, Judgement, judge, planned, trial
from sim.app.run import run_plan
from sim.app.study.outcome import perform
from sim.errors import InputError
from sim.scenario.compile import compile_plan

pytestmark = pytest.mark.slow


def document(*steps: dict[str, Any]) -> dict[str, Any]:
    """A cluster of two nodes with three pods, one expectation and a timeline."""
    web = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "registry.example/web:1"}]},
            },
        },
    }
    return {
        "apiVersion": "orrery.dev/v1",
        "kind": "Scenario",
        "metadata": {"name": "small"},
        "spec": {
            "seed": 4,
            "duration": "3m",
            "cluster": {"nodes": [{"count": 2}]},
            "objects": [web],
            "timeline": list(steps),
            "expect": [{"name": "nodes stay", "never": "nodes have Ready=Unknown", "after": "30s"}],
        },
    }


OUTAGE = {"at": "1m", "name": "outage", "fail": {"nodes": {"name": "node-1"}, "how": "power-loss"}}


def test_judgement_has_the_hash_of_an_ordinary_run() -> None:
    found = judge(document())
    assert found.sha256 == trio.run(lambda: run_plan(planned(document()))).trace_sha256
    assert (found.failed, found.error) == ((), "")


def test_judgement_shows_what_failed_and_what_a_target_measured() -> None:
    lost = {"name": f"{TARGET}lost", "unavailability": {"of": "deployments/web", "atMost": "0s"}}
    found = judge(document(OUTAGE), targets=[lost])
    assert found.failed == ("nodes stay",)
    assert found.targets[0] is not None
    assert found.targets[0] > 100


def test_features_name_decisions_transitions_and_the_fault_during_which_they_occur() -> None:
    plain, broken = judge(document()), judge(document(OUTAGE))
    new = set(broken.features) - set(plain.features)
    assert "decision controller-manager unheard during fail power-loss" in new
    assert "change nodes ready: True to Unknown x1" in new
    assert not any("node-1" in feature for feature in broken.features)


def test_document_is_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    planned_times: list[Any] = []

    def counted(*given: Any) -> Any:
        planned_times.append(given)
        return compile_plan(*given)

    monkeypatch.setattr(judging, "compile_plan", counted)
    judge(document())
    assert len(planned_times) == 1


def test_seed_of_the_call_replaces_that_of_the_document() -> None:
    assert (
        judge(document(), 9).sha256 == judge({**document(), "spec": {**document()["spec"], "seed": 9}}).sha256
    )


def test_document_with_an_error_is_refused_and_an_exception_of_its_run_is_kept() -> None:
    wrong = document({"at": "1m", "fail": {"nodes": {"name": "node-9"}, "how": "power-loss"}})
    with pytest.raises(InputError, match="node-9"):
        judge(wrong)
    assert perform(trial(wrong)).error.startswith("InputError")


def test_trials_with_a_common_part_have_the_judgements_of_trials_from_the_start() -> None:
    def facts(rest_us: int) -> list[Any]:
        jobs = [trial(one, rest_us=rest_us) for one in (document(), document(OUTAGE))]
        found = [perform(job) for job in jobs]
        assert all(isinstance(one, Judgement) for one in found)
        return [structs.asdict(one) | {"wall_s": 0} for one in found]

    before = TRIALS.shared
    with TRIALS:
        assert facts(50_000_000) == facts(0)
    assert TRIALS.shared == before + 2
