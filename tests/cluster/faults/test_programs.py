"""Programs of containers leave one trace, with fast paths and without."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.app.run import run_plan
from sim.scenario.compile import load

SCENARIO = """
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: programs}
spec:
  duration: 4m
  cluster: {nodes: [{count: 3}]}
  objects:
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: default}, data: {a: "1"}}
  - apiVersion: apps/v1
    kind: Deployment
    metadata: {name: web}
    spec:
      replicas: 4
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}}
        spec:
          containers:
          - name: c
            image: busybox
            command: [sh, -c, "touch /tmp/ok; for i in 1 2 3 4 5 6 7 8; do cat /cm/a; sleep 5; done; exit 2"]
            livenessProbe: {exec: {command: [cat, /tmp/ok]}}
            volumeMounts: [{name: v, mountPath: /cm}]
          volumes: [{name: v, configMap: {name: settings}}]
  timeline:
  - {at: 2m, crash: {actor: node-1, restartAfter: 20s}}
  expect: []
"""


@pytest.mark.slow
async def test_runs_with_programs_have_one_hash_with_and_without_fast_paths(tmp_path: Path) -> None:
    path = tmp_path / "programs.yaml"
    path.write_text(SCENARIO, encoding="utf-8")
    results = [await run_plan(load(path), fast=fast) for fast in (True, True, False)]
    assert len({result.trace_sha256 for result in results}) == 1
