"""A storage that is full, of which one member fails, or that is set back to an earlier instant."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.app.run import run_plan
from sim.errors import InputError
from sim.kernel import read
from sim.report.story import Book
from sim.scenario.compile import compile_plan
from sim.scenario.read.source import parse_documents
from tests.cluster.scenario import RUNNING, run, step, within

HEAD = "apiVersion: orrery.dev/v1\nkind: Scenario\nmetadata: {name: t}\nspec:\n  duration: 8m\n"
MORE = {"at": "2m10s", "name": "more", "scale": {"resource": "deployments", "name": "web", "replicas": 9}}
READY = "deployments named web have status.readyReplicas"


async def test_full_storage_refuses_writes_at_once_until_a_defragmentation(tmp_path: Path) -> None:
    timeline = [
        step("storage", {"how": "no-space"}),
        MORE,
        {"at": "2m30s", "name": "freed", "storage": {"how": "defragment"}, "for": "3s"},
    ]
    expect = [
        {"name": "nothing is written", "never": {"changed": "deployments"}, "after": "it", "until": "end of freed"},
        {"name": "it continues", "when": "at least 9 pods are Running", "within": ["0s", "40s"], "after": "end of freed"},
    ]  # fmt: skip
    await run(tmp_path, timeline, [RUNNING, *expect])
    ends = [each.values["name"] for each in read(tmp_path / "trace") if each.kind == "step-end"]
    assert sorted(ends) == ["freed", "it"]


async def test_one_member_of_the_storage_stops_its_api_server_only(tmp_path: Path) -> None:
    stopped = step("storage", {"how": "defragment", "apiServer": "apiserver-1"}, **{"for": "60s"})
    expect = [
        within("at least 1 nodes have Ready=Unknown", "29s", "60s"),
        {"name": "the others stay", "never": "at least 4 nodes have Ready=Unknown"},
        {
            "name": "all are back",
            "when": "all nodes have Ready=True",
            "within": ["0s", "15s"],
            "after": "end of it",
        },
    ]
    cluster = {"apiServer": {"replicas": 2}, "nodes": [{"count": 4}]}
    await run(tmp_path, [stopped], expect, cluster=cluster)


async def test_agents_run_pods_that_a_restored_storage_has_forgotten(tmp_path: Path) -> None:
    timeline = [MORE, {"at": "3m", "name": "it", "storage": {"how": "restore", "to": "2m"}}]
    expect = [
        {"name": "they were there", "always": "at least 9 pods are Running", "after": "2m30s", "until": "2m59s"},
        {"name": "they are not made again", "never": "at least 7 pods exist", "after": "it", "until": "3m30s"},
    ]  # fmt: skip
    await run(tmp_path, timeline, [RUNNING, *expect])
    records = list(read(tmp_path / "trace"))
    restored = [
        each.values["key"] for each in records if each.kind == "write" and each.values["verb"] == "restore"
    ]
    assert sum(key.startswith("//pods/") for key in restored) >= 3
    at_us = next(each.at_us for each in records if each.kind == "step" and each.values["name"] == "it")
    ended = [each for each in records if each.kind == "container" and at_us < each.at_us < at_us + 30_000_000]
    assert ended == [], "agents miss that the pods are gone"


async def test_informers_miss_changes_until_the_revision_has_passed_theirs(tmp_path: Path) -> None:
    timeline = [
        MORE,
        {"at": "3m", "name": "it", "storage": {"how": "restore", "to": "2m"}},
        {**MORE, "at": "3m5s", "name": "missed", "scale": {**MORE["scale"], "replicas": 7}},
        {"at": "7m", "name": "again", "scale": {"resource": "deployments", "name": "web", "replicas": 8}},
    ]
    expect = [
        {"name": "the first order is missed", "never": "replicasets named web-* have spec.replicas=7"},
        {"name": "the second is seen", "when": "replicasets named web-* have spec.replicas=8", "within": ["0s", "1s"],
         "after": "again"},
    ]  # fmt: skip
    await run(tmp_path, timeline, [RUNNING, *expect])


async def test_story_of_a_node_that_looks_dead_names_its_renewal_before_the_restore(tmp_path: Path) -> None:
    """The revision of that renewal is given out again."""
    timeline = [{"at": "3m", "name": "it", "storage": {"how": "restore", "to": "1m30s"}}]
    await run(tmp_path, timeline, [within("any nodes have Ready=Unknown", "20s", "60s")])
    book = Book(read(tmp_path / "trace"))
    unheard = next(
        each for each in book.records if each.kind == "decision" and each.values["what"] == "unheard"
    )
    assert "last renewal at 2m5" in book.line(unheard, None).text
    assert book.chain(unheard)[0].values["name"] == "it"


async def test_restored_storage_gives_the_same_run_with_columnar_renewals(tmp_path: Path) -> None:
    text = (
        "  cluster: {established: true, nodes: [{count: 300}]}\n  timeline:\n"
        "    - {at: 4m, storage: {how: restore, to: 2m}}\n"
    )
    (document,) = parse_documents(HEAD + text, "t.yaml")
    plan = compile_plan(document, tmp_path)
    first = await run_plan(plan, picture=False)
    assert first.trace_sha256 == (await run_plan(plan, picture=False, fast=False)).trace_sha256


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{how: restore}", "'to' is missing"),
        ("{how: pause, to: 1m}", "'to' has no effect on 'pause'"),
        ("{how: restore, to: 1m, by: 3s}", "'restore' has 'to' only"),
        ("{how: restore, to: 3m}", "3m0s is not before the step"),
        ("{how: no-space, apiServer: apiserver-0}", "'no-space' is a state of all members"),
        ("{how: pause, apiServer: node-0}", "node-0 is no API server"),
    ],
)
def test_storage_state_with_wrong_parameters_is_an_error(text: str, message: str, tmp_path: Path) -> None:
    timeline = f"  cluster: {{nodes: [{{count: 1}}]}}\n  timeline:\n    - {{at: 2m, storage: {text}}}\n"
    (document,) = parse_documents(HEAD + timeline, "t.yaml")
    with pytest.raises(InputError, match=message):
        compile_plan(document, tmp_path)


def test_restored_storage_has_no_end(tmp_path: Path) -> None:
    timeline = "  cluster: {nodes: [{count: 1}]}\n  timeline:\n    - {at: 2m, for: 1m, storage: {how: restore, to: 1m}}\n"
    (document,) = parse_documents(HEAD + timeline, "t.yaml")
    with pytest.raises(InputError, match="'for' has no effect here"):
        compile_plan(document, tmp_path)
