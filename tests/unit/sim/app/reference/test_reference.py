"""The reference pages are generated from declarations and agree with what the parsers read."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from sim.app.reference import shipped
from sim.app.reference.conditions import CONDITIONS, ConditionRow
from sim.app.reference.options import DAEMONS, alone_rows, daemon_named, gate_rows, option_rows
from sim.app.reference.schema import scenario_schema
from sim.app.reference.shipped import scenario_path, scenarios_folder
from sim.app.reference.steps import step_pages
from sim.check.condition import parse_condition
from sim.errors import InputError
from sim.faults import FAULTS
from sim.ident import NAMES
from sim.options.apiserver.server import ApiServerFlags
from sim.options.base import effects_of, options_of
from sim.options.controllers.manager import ControllerManagerOptions
from sim.options.node.agent import NodeAgentOptions
from sim.options.scheduler import SchedulerOptions, parse_scheduler
from sim.scenario.compile import load

# Names of the options that the specification has, by daemon.
SPECIFIED = json.loads((Path(__file__).parents[2] / "options" / "specified_names.json").read_text())
FILES = sorted(shipped.shipped("scenarios").glob("*.yaml"))
FILE = """
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: example}
spec:
  cluster: {nodes: [{count: 2, zones: [a]}]}
  objects:
    - apiVersion: apps/v1
      kind: Deployment
      metadata: {name: web}
      spec:
        selector: {matchLabels: {app: web}}
        template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: "r/web:1"}]}}
  expect:
    - {name: example, eventually: EXAMPLE}
"""


@pytest.mark.parametrize("row", [row for row in CONDITIONS if row.part != "what happens"], ids=str)
def test_example_of_a_condition_is_read(row: ConditionRow) -> None:
    assert parse_condition(row.example, NAMES["kubernetes"]).text == row.example


@pytest.mark.parametrize("row", [row for row in CONDITIONS if row.part == "what happens"], ids=str)
def test_example_of_an_event_is_read(row: ConditionRow, tmp_path: Path) -> None:
    path = tmp_path / "example.yaml"
    path.write_text(FILE.replace("EXAMPLE", row.example))
    assert len(load(path).expectations) == 1


def test_pages_mark_faults_and_not_the_actions_of_users() -> None:
    pages = step_pages()
    assert [name for name, page in pages.items() if page.fault] == [fault.name for fault in FAULTS]
    assert not pages["drain"].fault


def test_page_of_a_step_has_required_parameters_and_defaults() -> None:
    page = step_pages()["reboot"]
    assert [(each.name, each.default) for each in page.parameters] == [
        ("nodes", "required"),
        ("downtime", "60s"),
    ]


@pytest.mark.parametrize("daemon", DAEMONS)
def test_every_option_is_listed_once(daemon: str) -> None:
    names = [row.name for row in option_rows(daemon, NAMES["kubernetes"])]
    assert names and len(set(names)) == len(names)
    assert not any("{" in name for name in names)


@pytest.mark.parametrize("daemon", SPECIFIED)
def test_lists_hold_the_options_of_the_specification(daemon: str) -> None:
    names = {row.name for row in option_rows(daemon, NAMES["orch"])}
    assert {*SPECIFIED[daemon]} - names == set()
    if daemon == "controller-manager":
        assert names == {*SPECIFIED[daemon]}


@pytest.mark.parametrize("daemon", DAEMONS)
def test_option_has_an_effect_or_a_reason(daemon: str) -> None:
    rows = option_rows(daemon, NAMES["kubernetes"])
    assert all(sum(map(bool, (row.effect, row.reason, row.taken))) == 1 for row in rows)


@pytest.mark.parametrize("daemon", ["apiserver", "controller-manager", "scheduler", "node-agent"])
def test_each_option_of_a_program_alone_has_an_effect_or_a_reason(daemon: str) -> None:
    rows = {row.name: row for row in option_rows(daemon, NAMES["orch"], alone=True)}
    assert all(sum(map(bool, (row.effect, row.reason, row.taken))) == 1 for row in rows.values())
    assert {*SPECIFIED.get(daemon, ())} - rows.keys() - {"help", "version"} == set()
    rows.pop("config", None)  # of a scheduler
    assert [name for name, row in rows.items() if "scenario" in row.effect + row.reason] == []
    assert "lowest version of TLS" in rows["tls-min-version"].effect


@pytest.mark.parametrize(
    "options", [ApiServerFlags, ControllerManagerOptions, NodeAgentOptions, SchedulerOptions]
)
def test_each_row_of_effects_is_that_of_an_option(options: type) -> None:
    assert {*effects_of(options)} == {each.name for each in options_of(options).values()}


@pytest.mark.parametrize("daemon", DAEMONS)
def test_options_of_a_process_alone_have_an_effect_or_a_reason(daemon: str) -> None:
    rows = alone_rows(daemon, NAMES["kubernetes"])
    assert [row.name for row in rows if bool(row.effect) is bool(row.taken)] == []
    refused = {row.name for row in option_rows(daemon, NAMES["kubernetes"]) if row.reason}
    of_servers = {"tls-cert-file", "tls-private-key-file", "tls-min-version", "cert-dir"}
    expected = set() if daemon == "node-agent" else of_servers
    assert expected <= refused & {row.name for row in rows}


def test_every_gate_is_listed_for_every_daemon() -> None:
    for daemon in DAEMONS:
        rows = {row.name: row for row in gate_rows(daemon)}
        assert len(rows) == 141
        assert rows["AllAlpha"].effect and not rows["KMSv2"].effect
    assert {row.name: row for row in gate_rows("node-agent")}["GracefulNodeShutdown"].effect


def test_listed_option_with_effect_is_taken_and_others_are_refused() -> None:
    names = NAMES["kubernetes"]
    for row in option_rows("scheduler", names):
        if not row.reason:
            parse_scheduler({row.name: row.default}, names=names)
        else:
            with pytest.raises(InputError, match=re.escape(f"has no effect here: {row.reason}")):
                parse_scheduler({row.name: "x"}, names=names)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario_that_comes_along_fits_the_schema(path: Path) -> None:
    assert list(Draft202012Validator(scenario_schema()).iter_errors(yaml.safe_load(path.read_text()))) == []


def test_schema_refuses_an_unknown_key() -> None:
    content = yaml.safe_load(FILES[0].read_text())
    content["spec"]["cluster"]["nods"] = 3
    assert list(Draft202012Validator(scenario_schema()).iter_errors(content))


def test_name_of_a_scenario_that_comes_along_is_found_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load(scenario_path(Path("zone-outage"))).name == "zone-outage"
    assert scenarios_folder() == shipped.shipped("scenarios")


def test_file_of_the_user_comes_before_a_scenario_of_the_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("zone-outage").write_text("mine")
    assert scenario_path(Path("zone-outage")) == Path("zone-outage")


def test_unknown_name_of_a_scenario_gets_the_most_similar_one() -> None:
    with pytest.raises(InputError, match="did you mean 'zone-outage'"):
        scenario_path(Path("zone-outge"))


@pytest.mark.parametrize(("name", "daemon"), [
    ("orchlet", ("node-agent", "orch")), ("kubelet", ("node-agent", "kubernetes")), ("scheduler", ("scheduler", "")),
    ("kube-scheduler", ("scheduler", "kubernetes")), ("orch-controller-manager", ("controller-manager", "orch")),
    ("orch-apiserver", ("apiserver", "orch")), ("kube-proxy", ("", "")),
])  # fmt: skip
def test_daemon_has_its_names_of_both_naming_sets(name: str, daemon: tuple[str, str]) -> None:
    assert daemon_named(name) == daemon
