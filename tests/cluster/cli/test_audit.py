"""The audit of a run: a file with virtual times, the same for each run of the scenario."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from sim.app.cli.main import main
from sim.app.run import Result, run_plan
from sim.errors import InputError
from sim.scenario.compile import load
from tests.cluster.cli.test_replay import PODS, SCENARIO, WAIT_S, disturb

POLICY: dict[str, Any] = {
    "apiVersion": "audit.orch.io/v1",
    "kind": "Policy",
    "rules": [
        {"level": "RequestResponse", "resources": [{"group": "", "resources": ["pods"]}]},
        {"level": "None", "resources": [{"group": "coordination.orch.io"}]},
        {"level": "Metadata"},
    ],
}


def scenario(tmp_path: Path, flags: dict[str, Any], **spec: Any) -> Path:
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(POLICY))
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    cluster = {"nodes": [{"count": 2}], "apiServer": {"flags": flags, **spec.pop("api_server", {})}}
    body = {"seed": 3, "duration": "2m", "objects": [pod], "cluster": cluster, **spec}
    whole = {"apiVersion": "orrery.dev/v1", "kind": "Scenario", "metadata": {"name": "t"}, "spec": body}
    file = tmp_path / "s.yaml"
    file.write_text(yaml.safe_dump(whole))
    return file


def flags_of(tmp_path: Path, log: str = "audit.log", **more: Any) -> dict[str, Any]:
    return {"audit-policy-file": "policy.yaml", "audit-log-path": str(tmp_path / log), **more}


async def audited(tmp_path: Path, log: str, **more: Any) -> tuple[Result, list[dict[str, Any]]]:
    spec = more.pop("spec", {})
    result = await run_plan(load(scenario(tmp_path, flags_of(tmp_path, log, **more), **spec)))
    return result, [json.loads(line) for line in (tmp_path / log).read_text().splitlines()]


async def test_two_runs_write_the_same_file_and_have_the_trace_of_an_unaudited_run(tmp_path: Path) -> None:
    first, events = await audited(tmp_path, "a.log")
    second, _ = await audited(tmp_path, "b.log")
    assert (tmp_path / "a.log").read_bytes() == (tmp_path / "b.log").read_bytes()
    plain = await run_plan(load(scenario(tmp_path, {})))
    assert first.trace_sha256 == second.trace_sha256 == plain.trace_sha256
    times = [event["stageTimestamp"] for event in events]
    assert times == sorted(times)
    assert times[0].startswith("2026-01-01T00:00:0")
    assert len({event["auditID"] for event in events}) > len(events) / 3


async def test_request_of_an_actor_is_recorded_at_the_level_of_its_rule(tmp_path: Path) -> None:
    _, events = await audited(tmp_path, "a.log")
    made = [
        event for event in events if event["verb"] == "create" and event["objectRef"]["resource"] == "pods"
    ]
    received, complete = [event for event in made if event["objectRef"].get("name") == "a"][:2]
    assert (received["stage"], complete["stage"]) == ("RequestReceived", "ResponseComplete")
    assert received["auditID"] == complete["auditID"]
    assert received["requestObject"]["metadata"]["name"] == "a"
    assert complete["responseObject"]["metadata"]["managedFields"]
    assert complete["user"]["username"] == "admin"
    assert complete["annotations"]["authorization.orch.io/decision"] == "allow"
    assert all("requestObject" not in event for event in events if event["level"] == "Metadata")
    assert not [event for event in events if event.get("objectRef", {}).get("resource") == "leases"]
    reasons = {
        event["annotations"]["authorization.orch.io/reason"] for event in events if event.get("annotations")
    }
    scheduler = "system:orch-scheduler"
    assert (
        f'RBAC: allowed by ClusterRoleBinding "{scheduler}" of ClusterRole "{scheduler}" to User "{scheduler}"'
        in reasons
    )
    agent = next(event for event in events if event["user"]["username"] == "system:node:node-0")
    assert agent["sourceIPs"] == ["172.16.0.2"]


async def test_watch_is_recorded_when_it_starts_and_when_it_ends(tmp_path: Path) -> None:
    spec = {"duration": "3m", "timeline": [{"at": "2m", "name": "drop", "dropWatches": {"resource": "pods"}}]}
    _, events = await audited(tmp_path, "a.log", spec=spec)
    by_id: dict[str, list[str]] = {}
    for event in events:
        if event["verb"] == "watch" and event["objectRef"]["resource"] == "pods":
            by_id.setdefault(event["auditID"], []).append(event["stage"])
    stages = [*by_id.values()]
    assert ["RequestReceived", "ResponseStarted", "ResponseComplete"] in stages
    assert stages[-1] == ["RequestReceived", "ResponseStarted"]


async def test_events_of_a_crashed_server_wait_for_no_batch(tmp_path: Path) -> None:
    batches = {"audit-log-mode": "batch", "audit-log-batch-max-size": 5000, "audit-log-batch-max-wait": "10m"}
    whole, _ = await audited(tmp_path, "a.log")
    ended, events = await audited(tmp_path, "b.log", **batches)
    assert ended.trace_sha256 == whole.trace_sha256
    assert (tmp_path / "a.log").read_bytes() == (tmp_path / "b.log").read_bytes()  # written at the end
    crash = {
        "timeline": [{"at": "1m", "name": "crash", "crash": {"actor": "apiserver-0", "restartAfter": "5s"}}]
    }
    _, events = await audited(tmp_path, "c.log", spec=crash, **batches)
    assert events[0]["stageTimestamp"] >= "2026-01-01T00:01:05"
    _, events = await audited(tmp_path, "d.log", spec=crash)
    assert events[0]["stageTimestamp"] < "2026-01-01T00:00:10"


async def test_server_that_ends_in_order_writes_what_is_open_and_what_waits(tmp_path: Path) -> None:
    batches = {"audit-log-mode": "batch", "audit-log-batch-max-size": 5000, "audit-log-batch-max-wait": "10m"}
    end = {"actor": "apiserver-0", "gracefully": True}
    spec = {"duration": "4m", "timeline": [{"at": "1m", "name": "end", "crash": end}]}
    _, events = await audited(tmp_path, "a.log", spec=spec, **batches)
    started = {event["auditID"] for event in events if event["stage"] == "ResponseStarted"}
    complete = {event["auditID"] for event in events if event["stage"] == "ResponseComplete"}
    before = {event["auditID"] for event in events if event["stageTimestamp"] < "2026-01-01T00:01"}
    assert started & before
    assert started & before <= complete


async def test_log_is_not_replaced_without_force(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = scenario(tmp_path, flags_of(tmp_path))
    (tmp_path / "audit.log").write_text("mine")
    with pytest.raises(InputError, match="exists already"):
        await run_plan(load(file))
    assert (tmp_path / "audit.log").read_text() == "mine"


def test_command_replaces_the_log_by_force(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(scenario(tmp_path, flags_of(tmp_path)))
    assert main(["run", file, "--no-report", "-q"]) == 0
    first = (tmp_path / "audit.log").read_bytes()
    assert main(["run", file, "--no-report", "-q"]) == 2
    assert "exists already" in capsys.readouterr().err
    assert main(["run", file, "--no-report", "-q", "--force"]) == 0
    assert (tmp_path / "audit.log").read_bytes() == first
    assert main(["run", file, "--seeds", "2", "--no-report", "-q"]) == 2
    assert "an audit is only for one run" in capsys.readouterr().err


async def test_webhook_is_refused_in_a_run(tmp_path: Path) -> None:
    flags = {"audit-policy-file": "policy.yaml", "audit-webhook-config-file": "w.yaml"}
    with pytest.raises(InputError, match="is for a cluster that is served"):
        await run_plan(load(scenario(tmp_path, flags)))


async def test_wrong_policy_of_a_scenario_is_refused_with_its_place(tmp_path: Path) -> None:
    file = scenario(tmp_path, flags_of(tmp_path))
    (tmp_path / "policy.yaml").write_text("apiVersion: audit.orch.io/v1\nkind: Policy\nrules: [{level: x}]\n")
    with pytest.raises(
        InputError, match=r"policy.yaml:3:\d+: option audit-policy-file: rules\[0\].level: Unsupported value"
    ):
        await run_plan(load(file))


def test_run_of_an_audited_server_is_made_again_without_its_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = {**POLICY, "apiVersion": "audit.k8s.io/v1"}
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(policy))
    scenario = yaml.safe_load(SCENARIO)
    flags = {"audit-log-mode": "batch", "audit-log-batch-max-size": 50, "audit-log-batch-max-wait": "7s"}
    scenario["spec"]["cluster"]["apiServer"] = {"flags": flags_of(tmp_path, **flags)}
    (tmp_path / "night.yaml").write_text(yaml.safe_dump(scenario))
    options = ["--pace", "max", "--port", "0", "--client-config", "config", "--journal", "night.journal"]
    command = [sys.executable, "-m", "sim.app.cli.main", "serve", "night.yaml", *options]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            disturb(server.stdout.readline().split()[-1], tmp_path / "config")
        finally:
            server.send_signal(signal.SIGTERM)
        assert server.wait(WAIT_S) == 0
    again = subprocess.run(
        [*command[:-1], "new.journal"], check=False, cwd=tmp_path, capture_output=True, text=True
    )
    assert (again.returncode, (tmp_path / "new.journal").exists()) == (2, False)
    assert "audit.log: exists already" in again.stderr
    log = (tmp_path / "audit.log").read_bytes()
    events = [json.loads(line) for line in log.splitlines()]
    pods = [event for event in events if event["requestURI"] == PODS and event["verb"] == "create"]
    assert {event["sourceIPs"][0] for event in pods} == {"127.0.0.1"}
    assert {event["sourceIPs"][0] for event in events} > {"127.0.0.1", "172.16.250.1", "172.16.0.2"}
    assert main(["replay", str(tmp_path / "night.journal"), "--json", "--no-report"]) == 0
    assert json.loads(capsys.readouterr().out)["as_served"] is True
    assert (tmp_path / "audit.log").read_bytes() == log
