"""The commands of components that run alone, up to their start."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.app.daemons.commands import main
from sim.app.daemons.programs import PROGRAMS
from sim.ident import NAMES
from sim.version import __version__


def run(monkeypatch: pytest.MonkeyPatch, command: str, *words: str) -> int:
    monkeypatch.setattr("sys.argv", [f"/usr/bin/{command}"])
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    return main(words)


@pytest.mark.parametrize("part", sorted(PROGRAMS))
@pytest.mark.parametrize("naming", sorted(NAMES))
def test_help_has_every_option_under_the_name_of_the_command(
    part: str, naming: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = NAMES[naming]
    program = PROGRAMS[part]()
    assert run(monkeypatch, program.name(names), "--help") == 0
    page = capsys.readouterr().out
    assert f"{program.name(names)} [flags]" in page
    assert [name for name in program.known(names) if f"--{name}\n" not in page] == []
    assert "{short}" not in page


def test_naming_changes_how_options_are_spelled(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "orch-scheduler", "--naming=kubernetes", "--kubeconfig=/nope") == 1
    assert "--kubeconfig: /nope" in capsys.readouterr().err
    assert run(monkeypatch, "orch-scheduler", "--kubeconfig=/nope") == 1
    assert "unknown flag: --kubeconfig" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "word", "text"),
    [
        (
            "kubelet",
            "--cluster-dns=x",
            "This parameter should be set via the config file specified by the Kubelet's",
        ),
        ("kubelet", "--register-schedulable", "will be removed in a future version"),
        ("kube-apiserver", "--apiserver-count=x", "apiserver-count is deprecated and will be removed"),
        ("kube-scheduler", "--logtostderr=x", "will be removed in a future release, see https://github.com/"),
        ("kubelet", "--vmodule=x", ""),
        ("kube-scheduler", "--master=x", ""),
    ],
)
def test_deprecated_options_are_named_with_the_words_of_pflag(
    command: str, word: str, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, command, word, "-v=much") == 1
    first = capsys.readouterr().err.splitlines()[0]
    name = word.partition("=")[0]
    assert first.startswith(f"Flag {name} has been deprecated, {text}") is bool(text), first


def test_version_names_both_versions(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "kube-scheduler", "--version") == 0
    assert capsys.readouterr().out == f"Orrery {__version__} (Kubernetes v1.25.16)\n"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            ["--master=a", "--leader-elect=maybe"],
            "--leader-elect: option leader-elect is 'maybe', wanted true or false",
        ),
        (["--master=a", "--leader-elect-lease-duration=1s"], "must be greater than"),
        ([], "no API server is known"),
        (["--write-config-to=/"], "/: is a folder"),
        (["--lock-object-name=x"], "--lock-object-name: has no effect here"),
        (["--logging-format=json", "--vmodule=a=1"], "Only supported for text log format"),
    ],
)
def test_wrong_options_end_with_one_line_and_status_1(
    words: list[str], text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "kube-scheduler", *words) == 1
    error = capsys.readouterr().err
    assert text in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("a: [", "is not valid YAML"),
        ("[]", "must be a mapping"),
        ("current-context: x", "contexts has no entry 'x'"),
    ],
)
def test_a_wrong_client_configuration_is_named(
    content: str,
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "config"
    file.write_text(content)
    assert run(monkeypatch, "kube-scheduler", f"--kubeconfig={file}") == 1
    error = capsys.readouterr().err
    assert text in error
    assert str(file) in error
