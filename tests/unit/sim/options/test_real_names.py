"""The options of upstream's programs, as their --help names them, and those of the programs here.

`real_names.json` has the names of v1.25.10; options that upstream hides are not in a --help.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sim.app.daemons.programs import PROGRAMS
from sim.app.reference.options import option_rows
from sim.ident import NAMES

REAL = json.loads((Path(__file__).parent / "real_names.json").read_text())
OWN = {"clock", "clock-config"}
OF_JSON = {"log-json-info-buffer-size", "log-json-split-stream"}  # of the format JSON alone
ADDED = {
    "apiserver": {
        *OWN,
        *OF_JSON,
        "data-dir",
        "oidc-keys-file",
        # hidden, or of clouds
        "apiserver-count",
        "audit-webhook-batch-initial-backoff",
        "cloud-provider-gce-l7lb-src-cidrs",
        "cloud-provider-gce-lb-src-cidrs",
        "default-watch-cache-size",
        "enable-logs-handler",
        "kubelet-port",
        "kubelet-read-only-port",
    },
    "controller-manager": {*OWN, *OF_JSON, "cloud-container-registry-config"},
    "scheduler": {
        *OWN,
        *OF_JSON,
        # of a simulated scheduler without a configuration file
        "bind-timeout",
        "percentage-of-nodes-to-score",
        "pod-initial-backoff",
        "pod-max-backoff",
        "scheduler-name",
    },
}


@pytest.mark.parametrize("part", REAL)
def test_programs_know_each_option_of_upstream_and_no_others(part: str) -> None:
    names = NAMES["kubernetes"]
    program = PROGRAMS[part]()
    known = {*program.known(names), *program.refused(names)}
    assert {*REAL[part]} - known == set()
    assert known - {*REAL[part]} == ADDED[part]


@pytest.mark.parametrize("part", REAL)
def test_each_option_of_upstream_has_an_effect_or_a_reason(part: str) -> None:
    rows = {row.name: row for row in option_rows(part, NAMES["kubernetes"], alone=True)}
    assert {*REAL[part]} - rows.keys() - {"help", "version"} == set()
    assert all(sum(map(bool, (row.effect, row.reason, row.taken))) == 1 for row in rows.values())
