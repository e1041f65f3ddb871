"""What a user misspelt has the most similar word, or what exists, in its one line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sim.app.cli.main import main
from sim.app.parts.credentials import published_authority
from sim.app.reference.first import FIRST, first_scenario
from sim.app.serving.journal import Session
from sim.errors import InputError
from sim.files import write_text
from sim.scenario.compile import compile_file, load


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--verison"], "unrecognized arguments: --verison (did you mean '--version'?)"),
        (["run", "zone-outage", "--sed", "3"], "unrecognized arguments: --sed (did you mean '--seed'?)"),
        (["init", "--forse"], "unrecognized arguments: --forse (did you mean '--force'?)"),
        (["validate", "first.yml"], "first.yml: no such file (did you mean 'first.yaml'?)"),
        (["why", "run.trase", "pod/a"], "run.trase: No such file or directory (did you mean 'run.trace'?)"),
    ],
)
def test_misspelt_word_gets_the_most_similar(
    arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "first.yaml").write_text("a: 1")
    (tmp_path / "run.trace").write_text("")
    try:
        status: object = main(arguments)
    except SystemExit as error:
        status = error.code
    assert status == 2
    assert capsys.readouterr().err.partition(" (see ")[0].rstrip() == f"orrery: {says}"


def test_scenario_of_the_package_is_named_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", "scenarios/zone-outage.yaml"]) == 2
    assert "(the package has that scenario: orrery run zone-outage)" in capsys.readouterr().err


def test_report_into_the_name_of_a_folder_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["run", "zone-outage", "--report", "x/"])
    assert "'x/' names a folder, not a file" in capsys.readouterr().err


def test_pipe_without_a_reader_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.files.READER_WAIT_S", 0.0)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="is a pipe that nothing reads"):
        write_text(tmp_path / "pipe", "text")


WRONG = """\
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: w}
spec:
  duration: 20s
  cluster: {nodes: [{count: 1}]}
  objects:
    - apiVersion: v1
      kind: Pod
      metadata: {name: a}
      spec:
        terminationGracePeriodSeconds: 5
        containers:
          - {name: a, image: x}
          - {name: b, image: y}
"""


@pytest.mark.parametrize(
    ("right", "wrong", "place"),
    [
        ("Seconds: 5", 'Seconds: "5"', "12:40"),
        ("image: y", "image: 5", "15:30"),
        ("{name: a}\n", "{name: a, labels: {app: 5}}\n", "10:41"),
        ("- {name: b, image: y}", "- 5", "15:13"),
    ],
)
def test_wrong_type_has_the_place_of_its_value(right: str, wrong: str, place: str, tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text(WRONG.replace(right, wrong, 1))
    (error,) = compile_file(file).errors
    assert error.place == f"{file}:{place}"


@pytest.mark.parametrize(
    "text",
    ['a: 1\nb: "x\nc: 3\n', 'a: 1\nb: "x\nc: "y"\n', "a: 1\nb: 'x\nc: 'y'\n"],
    ids=["to the end", "to the next", "single"],
)
def test_unclosed_quote_is_named_where_it_opened(text: str, tmp_path: Path) -> None:
    file = tmp_path / "q.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match="a quote opens at 2:4 and is not closed in that line"):
        load(file)


@pytest.mark.parametrize("kind", FIRST)
def test_each_first_scenario_is_sound(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "first.yaml"
    file.write_text(first_scenario(kind, "first", "s.json"))
    assert not compile_file(file).errors


def test_settings_reach_the_nodes_of_the_command_line() -> None:
    nodes = Session(settings=("cluster.nodes[0].labels={a: b}",), nodes=2).plan().cluster.nodes
    assert [(node.name, dict(node.labels)["a"]) for node in nodes] == [("node-0", "b"), ("node-1", "b")]
    plain = Session(nodes=2).plan().cluster.nodes
    assert [node.capacity for node in nodes] == [node.capacity for node in plain]


def test_naming_of_validate_replaces_that_of_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "w.yaml"
    file.write_text(WRONG.replace("- {name: b, image: y}", "- {name: c, image: y}"))
    assert main(["validate", "--naming", "kubernetes", str(file)]) == 0
    assert "ok (1 nodes" in capsys.readouterr().out


def test_root_authority_may_be_given_as_text() -> None:
    pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    assert published_authority(pem).pem == pem


def test_root_authority_as_text_is_no_path_of_the_scenario(tmp_path: Path) -> None:
    pem = '"-----BEGIN CERTIFICATE-----\\nAAAA\\n-----END CERTIFICATE-----\\n"'
    file = tmp_path / "w.yaml"
    part = f"cluster: {{controllerManager: {{flags: {{root-ca-file: {pem}}}}}, "
    file.write_text(WRONG.replace("cluster: {", part))
    assert load(file).cluster.controller_manager.flags["root-ca-file"].startswith("-----BEGIN")
