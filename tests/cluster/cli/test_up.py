"""`orrery up` and `down`: which files they touch, and which they never do."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from sim.api.types import UserInfo
from sim.app.cli.main import main
from sim.app.serving.configs.clients import write_client_config
from sim.app.serving.configs.merged import kubectl_config, merge_client_config
from sim.errors import InputError
from sim.wire.authority import Authority
from tests.cluster.cli.test_data_dir import ran

MINE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "preferences": {"colors": True},
    "clusters": [{"name": "work", "cluster": {"server": "https://work.example"}}],
    "users": [{"name": "me", "user": {"token": "t"}}],
    "contexts": [{"name": "work", "context": {"cluster": "work", "user": "me"}}],
    "current-context": "work",
}


def config_of(file: Path) -> bytes:
    """A client configuration of some cluster, as a server writes it; its content."""
    write_client_config(file, UserInfo("admin"), "https://127.0.0.1:1", Authority("ca"), "token")
    return file.read_bytes()


def test_configuration_of_another_cluster_is_never_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(MINE))
    assert main(["up", "--folder", str(tmp_path)]) == 2
    assert "was not written by this command" in capsys.readouterr().err
    assert yaml.safe_load(file.read_text()) == MINE
    file.unlink()
    written = config_of(file)
    assert main(["up", "--folder", str(tmp_path)]) == 2
    assert "is the client configuration of another cluster" in capsys.readouterr().err
    assert file.read_bytes() == written
    assert [each.name for each in tmp_path.iterdir()] == ["config"]


def test_down_ends_no_process_that_has_the_number_of_an_ended_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["down", "--folder", str(tmp_path / "never")]) == 2
    assert "orrery up starts one" in capsys.readouterr().err
    (tmp_path / "pid").write_text(f"{os.getpid()}\n")
    assert main(["down", "--folder", str(tmp_path)]) == 2
    assert "no cluster of it is up" in capsys.readouterr().err


@pytest.mark.slow
def test_up_merges_into_the_configuration_of_kubectl_if_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kube, folder = tmp_path / "kube", tmp_path / "mine"
    kube.write_text(yaml.safe_dump(MINE))
    monkeypatch.setenv("KUBECONFIG", f"{kube}:{tmp_path / 'second'}")
    common = ("--port", "0", "--pace", "0", "--folder", str(folder))
    status, said = ran("up", *common)
    try:
        assert status == 0
        assert f"orrery: export KUBECONFIG={folder}/config" in said
        assert yaml.safe_load(kube.read_text()) == MINE
        assert ran("down", "--folder", str(folder))[0] == 0
        for _ in range(2):
            status, said = ran("up", *common, "--merge-config")
            assert (status, f"merged as context 'orrery' into {kube}" in said) == (0, True)
            found = yaml.safe_load(kube.read_text())
            assert [one["name"] for one in found["contexts"]] == ["work", "orrery"]
            assert ran("ctl", "state", "--client-config", str(kube))[0] == 0
            assert ran("down", "--folder", str(folder))[0] == 0
    finally:
        ran("down", "--delete", "--folder", str(folder))
    assert found["current-context"] == "orrery"
    assert {key: found[key][:-1] for key in ("clusters", "users", "contexts")} == {
        key: MINE[key] for key in ("clusters", "users", "contexts")
    }
    assert found["preferences"] == MINE["preferences"]
    assert yaml.safe_load((tmp_path / "kube.before-orrery").read_text()) == MINE


def test_entries_of_another_cluster_are_never_replaced(tmp_path: Path) -> None:
    config, into = tmp_path / "config", tmp_path / "kube"
    config_of(config)
    said = merge_client_config(config, into, tmp_path / "one")
    assert "as it was" not in said
    before = into.read_bytes()
    with pytest.raises(InputError, match="has an entry 'orrery' of another cluster"):
        merge_client_config(config, into, tmp_path / "two")
    into.write_text("[1, 2]")
    with pytest.raises(InputError, match="is no client configuration"):
        merge_client_config(config, into, tmp_path / "one")
    into.write_bytes(before)
    merge_client_config(config, into, tmp_path / "one")
    assert into.read_bytes() == before


def test_file_of_kubectl_is_the_first_of_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", ":/a:/b")
    assert kubectl_config() == Path("/a")
    monkeypatch.delenv("KUBECONFIG")
    assert kubectl_config() == Path.home() / ".kube" / "config"
