"""Two programs of one pod: an agent that reads old state starts what runs elsewhere already."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim import load, run_plan

FILE = """
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: stale-read}
spec:
  duration: 9m
  cluster:
    naming: kubernetes
    apiServer: {replicas: 2}
    nodes: [{count: 1, prefix: old, labels: {age: old}}, {count: 1, prefix: new}]
  objects:
    - apiVersion: apps/v1
      kind: StatefulSet
      metadata: {name: db}
      spec:
        serviceName: db
        replicas: 1
        selector: {matchLabels: {app: db}}
        template:
          metadata: {labels: {app: db}}
          spec:
            affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [
              {weight: 100, preference: {matchExpressions: [{key: age, operator: In, values: [old]}]}}]}}
            containers: [{name: c, image: "r/db:1"}]
  timeline:
    - {at: 4m, name: stale, diverge: {apiServer: apiserver-1}, for: 12m}
    - {at: 4m30s, name: cut, partition: {between: [old-0, apiserver-0]}, for: 10m}
    - {at: 4m31s, name: closed, cordon: {nodes: {name: old-0}}}
    - {at: 5m, name: moved, delete: {resource: pods, name: db-0, gracePeriodSeconds: 0}}
    - {at: 7m, name: restart, reboot: {nodes: {name: old-0}, downtime: 20s}}
  expect:
    - {name: one object at any time, never: at least 2 pods owned by db exist}
    - {name: runs twice, when: at least 2 programs of pods owned by db, within: [0s, 1s], after: moved}
    - {name: once while the machine is off, when: exactly 1 programs of pods named db-0, within: [0s, 1s], after: restart}
    - {name: and twice again, when: at least 2 containers of pods named db-0 are running, again: true,
       within: [20s, 2m], after: restart}
    - {name: one at most, always: at most 1 programs of pods named db-0}
"""


@pytest.mark.slow
async def test_restarted_agent_with_old_state_runs_a_second_program(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(FILE)
    result = await run_plan(load(path))
    assert [verdict.name for verdict in result.verdicts if not verdict.ok] == ["one at most"]
    assert result.verdicts[-1].objects == ("//pods/default/db-0",)
