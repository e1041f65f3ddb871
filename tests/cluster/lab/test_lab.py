"""The lab: one cluster over many calls, in plain Python, inside event loops, forked, interrupted."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from pathlib import Path

import pytest
import trio

from orrery import Cluster, InputError, Lab, load, run_plan
from sim.app.reference.shipped import scenario_path
from sim.client import Client

WEB = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 6,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "r/web:1"}]},
        },
    },
}


def test_lab_keeps_time_and_state_between_calls() -> None:
    with Lab(nodes=3, seed=1) as lab:
        lab.apply(WEB)
        assert lab.run("1m").at_us == 60_000_000
        assert lab.run("1m").at_us == 120_000_000
        assert lab.state().running == 6


def test_run_until_stops_at_the_instant_at_which_the_condition_comes_to_hold() -> None:
    with Lab(nodes=3, seed=1) as lab:
        lab.run("1m")
        lab.fail(nodes={"name": "node-1"}, how="power-loss")
        took_s = lab.run_until("any nodes have Ready=Unknown", limit="5m")
        assert took_s is not None and 20 < took_s < 60
        assert lab.now_s == pytest.approx(60 + took_s)
        ready = {row["name"]: row["ready"] for row in lab.nodes().to_dicts()}
        assert ready == {"node-0": "True", "node-1": "Unknown", "node-2": "True"}
        assert lab.run_until("any nodes have Ready=Unknown") == 0.0


def test_objects_wait_until_the_nodes_have_booted_so_that_pods_spread() -> None:
    with Lab(nodes=3, seed=2) as lab:
        lab.apply(WEB)
        with pytest.raises(InputError, match="apiVersion"):
            lab.apply({"kind": "Pod"})
        lab.run("14s")
        assert lab.pods().height == 0 and lab.nodes()["ready"].to_list() == ["True"] * 3
        lab.run("46s")
        assert sorted(lab.pods()["node"].to_list()) == [f"node-{number // 2}" for number in range(6)]


def test_delete_before_the_boot_waits_for_the_objects_that_wait() -> None:
    pods = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [
            {"name": "c", "image": "r/c:1"}]}} for name in ("one", "two")
    ]  # fmt: skip
    with Lab(nodes=1, seed=1) as lab:
        lab.apply(*pods)
        lab.delete(resource="pods", name="one")
        lab.run("1m")
        assert lab.refused == ()
        assert [pod["metadata"]["name"] for pod in lab.objects("pods")] == ["two"]
        with pytest.raises(InputError, match=r'^"twoo" names no object \(there is pods/default/two\)$'):
            lab.why("twoo")
        with pytest.raises(InputError, match=r"^pods/default/twoo is not in the run so far \(there is"):
            lab.why("pod/twoo")


def test_misspelt_words_of_a_lab_are_suggested() -> None:
    with Lab(nodes=1, seed=1) as lab:
        with pytest.raises(AttributeError, match="did you mean 'fail'"):
            lab.fial(nodes={})
        with pytest.raises(
            TypeError, match=r"Lab.run\(\) has no argument 'duraton' \(did you mean 'duration'"
        ):
            lab.run(duraton="1m")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"Lab\(\) has no argument 'nods' \(did you mean 'nodes'"):
        Lab(nods=1)  # type: ignore[call-arg]


def test_lab_of_a_scenario_has_the_trace_of_its_run() -> None:
    result = trio.run(run_plan, load(scenario_path(Path("drain-blocked"))))
    with Lab(scenario="drain-blocked") as lab:
        lab.run("20m")
        assert lab.trace_sha256 == result.trace_sha256


def test_run_until_gives_none_when_the_limit_comes_first() -> None:
    with Lab(nodes=1, seed=1) as lab:
        assert lab.run_until("any nodes have Ready=Unknown", limit="2m") is None
        assert lab.now_s == 120


def test_run_until_an_event_counts_what_happens_from_now_on() -> None:
    with Lab(nodes=2, seed=1, objects=[WEB]) as lab:
        lab.run("1m")
        lab.scale(resource="deployments", name="web", replicas=7)
        took_s = lab.run_until({"created": "pods", "where": {"owner": "web"}}, limit="1m")
        assert took_s is not None and took_s > 0
        assert lab.pods().height == 7


def test_every_kind_of_step_is_a_method_with_documentation() -> None:
    with Lab(seed=1) as lab:
        assert {"fail", "partition", "drop_watches", "drain", "load"} <= set(dir(lab))
        assert "between" in (lab.partition.__doc__ or "")
        with pytest.raises(AttributeError, match="partitoin"):
            _ = lab.partitoin


def test_wrong_parameters_are_refused_and_change_nothing() -> None:
    with Lab(nodes=2, seed=1) as lab:
        lab.run("30s")
        before = lab.trace_sha256
        with pytest.raises(InputError, match=r"^fail.nodes.name: there is no node 'node-9'"):
            lab.fail(nodes={"name": "node-9"}, how="power-loss")
        with pytest.raises(InputError, match=r"^fail.how: .*power-los"):
            lab.fail(nodes={"name": "node-1"}, how="power-los")
        with pytest.raises(InputError, match=r"^fail: the field 'how' is missing"):
            lab.fail(nodes={"name": "node-1"})
        with pytest.raises(InputError, match=r"^load.groups\[1\]: expected text"):
            lab.load(rate="1/s", list="pods", groups=["a", 3])
        with pytest.raises(InputError, match="no resource 'nods'"):
            lab.run_until("any nods have Ready=True")
        with pytest.raises(InputError, match="not a duration"):
            lab.run("soon")
        assert lab.trace_sha256 == before
        assert lab.fork().trace_sha256 == before


def test_forks_with_the_same_steps_are_equal() -> None:
    with Lab(nodes=4, seed=3) as lab:
        lab.apply(WEB)
        lab.run_until("at least 6 pods are Running", limit="2m")
        with lab.fork() as first, lab.fork() as second:
            for each in (first, second):
                each.fail(nodes={"name": "node-2"}, how="power-loss", for_="2m")
                each.run("10m")
            assert first.trace_sha256 == second.trace_sha256
            assert first.now_s != lab.now_s


def test_forks_part_at_the_step_that_differs(tmp_path: Path) -> None:
    with Lab(nodes=4, seed=3) as lab:
        lab.run("1m")
        with lab.fork() as calm, lab.fork() as stormy:
            stormy.fail(nodes={"name": "node-2"}, how="power-loss")
            for each in (calm, stormy):
                each.run("2m")
            first = first_difference(calm, stormy, tmp_path)
    assert first == "step"


def first_difference(first: Lab, second: Lab, folder: Path) -> str:
    """The kind of the first record of the second lab that the first has not."""
    from sim.kernel.trace.files import read

    records = []
    for number, lab in enumerate((first, second)):
        file = folder / f"{number}.trace"
        lab.save_trace(file)
        records.append(list(read(file)))
    return next(two.kind for one, two in zip(*records, strict=False) if one != two)


def test_lab_works_inside_an_asyncio_and_a_trio_program() -> None:
    with Lab(nodes=1, seed=1) as lab:

        async def cell() -> float:
            lab.run("10s")
            return lab.now_s

        assert asyncio.run(cell()) == 10
        assert trio.run(cell) == 20


def test_interrupt_ends_the_run_and_leaves_the_lab_usable() -> None:
    with Lab(nodes=1, seed=1) as lab:
        pid = os.getpid()

        def interrupt_at_one_hour(session: object) -> None:
            kernel = session.cluster.kernel  # type: ignore[attr-defined]
            kernel.call_at(3_600_000_000, lambda _: os.kill(pid, signal.SIGINT))

        lab._portal.call(interrupt_at_one_hour)
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt):
                lab.run("100000h")
        finally:
            signal.signal(signal.SIGINT, before)
        stopped_s = lab.now_s
        assert 3600 <= stopped_s < 100_000 * 3600
        lab.run("1m")
        assert lab.now_s == stopped_s + 60


def test_thousand_calls_and_many_labs_leave_no_thread() -> None:
    before = threading.active_count()
    for seed in range(10):
        with Lab(nodes=1, seed=seed) as lab:
            for _ in range(100):
                lab.run("1s")
            assert lab.now_s == 100
    assert threading.active_count() == before


def test_closed_lab_says_so() -> None:
    lab = Lab(seed=1)
    lab.close()
    assert repr(lab) == "<a closed lab, seed 1>"
    with pytest.raises(RuntimeError, match="closed"):
        lab.run("1s")


def test_lab_of_a_scenario_has_its_cluster_objects_and_timeline() -> None:
    with Lab(scenario="single-node-death") as lab:
        assert lab.run("30m").pods >= 40
        assert {row["reason"] for row in lab.events().to_dicts()} >= {"NodeNotReady"}
    with pytest.raises(InputError, match="either a scenario"):
        Lab(scenario="single-node-death", nodes=3)


def test_lab_of_a_variant_has_its_settings() -> None:
    with Lab(scenario="pod-priorities", variant="no-default") as lab:
        lab.run("2m30s")
        medium = lab.get("priorityclasses", "medium", "")
        assert medium is not None and medium["value"] == -1
    with pytest.raises(InputError, match="without a scenario has no variants"):
        Lab(nodes=1, variant="no-default")


def test_frames_have_their_columns_without_rows() -> None:
    with Lab(seed=1) as lab:
        assert lab.pods().is_empty() and lab.pods().columns[:3] == ["namespace", "name", "phase"]
        assert lab.nodes().is_empty() and lab.leases().schema["renewed_s"].is_float()


def test_story_and_picture_are_text_and_html() -> None:
    with Lab(nodes=3, zones=["a"], seed=1, objects=[WEB]) as lab:
        lab.run("1m")
        lab.fail(nodes={"name": "node-a-1"}, how="power-loss")
        lab.run("10m")
        story = lab.why("pod/web-*")
        assert "power loss" in str(story) and "power loss" in story._repr_html_()
        assert "<svg" in lab.timeline()._repr_html_() and "<svg" in lab._repr_html_()
        with pytest.raises(InputError, match="is not in the run"):
            lab.why("pod/nothing")


def test_ask_for_causes_does_not_change_the_run() -> None:
    hashes = []
    for asks in (False, True):
        with Lab(nodes=2, seed=1, objects=[WEB]) as lab:
            lab.run("1m")
            if asks:
                lab.why("node/node-1")
                lab.timeline()
            lab.run("5m")
            hashes.append(lab.trace_sha256)
    assert hashes[0] == hashes[1]


async def test_cluster_has_every_step_as_a_method_too() -> None:
    async with Cluster(nodes=3, seed=1) as cluster:
        await cluster.run_for("30s")
        cluster.do.cordon(nodes={"name": "node-2"})
        name = cluster.do.crash(actor="scheduler", restart_after="10s")
        await cluster.run_for("5s")
        node = cluster.get("nodes", "node-2")
        assert node is not None and node["spec"]["unschedulable"] is True
        assert name == "crash-1"
        with pytest.raises(InputError, match="no earlier step"):
            cluster.do.heal(step="nothing")


async def _namer(client: Client) -> None:
    """A program that labels the first node once a second, and fails when there is a Deployment."""
    while True:
        node = (await client.list("nodes")).items[0].obj["metadata"]["name"]
        await client.patch("nodes", "", node, {"metadata": {"labels": {"seen": str(client.ctx.now_us())}}})
        if (await client.list("deployments", "default")).items:
            raise ValueError("a Deployment is there")
        await client.ctx.sleep_us(1_000_000)


def _label(lab: Lab) -> str:
    return str(lab.objects("nodes")[0]["metadata"]["labels"].get("seen"))


def test_program_of_the_user_runs_and_is_repeated_by_a_fork() -> None:
    with Lab(nodes=1, seed=1) as lab:
        program = lab.add_program("namer", _namer)
        lab.run("10s")
        program.crash()
        before = _label(lab)
        lab.run("10s")
        assert _label(lab) == before != "None"
        program.start()
        program.pause()
        program.resume()
        lab.run("10s")
        assert _label(lab) != before
        with lab.fork() as twin:
            assert twin.trace_sha256 == lab.trace_sha256


def test_exception_of_a_program_is_raised_by_run_and_ends_the_lab() -> None:
    with Lab(nodes=1, seed=1) as lab:
        lab.add_program("namer", _namer)
        lab.run("10s")
        lab.apply(WEB)
        with pytest.raises(ValueError, match="a Deployment is there"):
            lab.run("1m")
        assert repr(lab) == "<a closed lab, seed 1>"
