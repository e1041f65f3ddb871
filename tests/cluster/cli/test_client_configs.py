"""Client configurations that `orrery serve` writes: one identity each, and no file of others."""

from __future__ import annotations

import stat
from pathlib import Path

import httpx
import pytest
import yaml

from sim.app.cli.main import main
from sim.app.cluster import Cluster
from sim.app.serving.configs.clients import parse_client_configs
from sim.app.serving.serve import served

REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}


async def test_each_configuration_logs_in_as_its_user(tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("admin", "alice", "bob")}
    text = f"admin={files['admin']},alice={files['alice']},bob+dev={files['bob']}"
    async with (
        Cluster(naming="kubernetes") as cluster,
        served(cluster, parse_client_configs(text), pace=0.001) as url,
    ):
        tokens = {}
        for name, file in files.items():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            config = yaml.safe_load(file.read_text())
            assert config["contexts"][0]["context"] == {"cluster": "orrery", "user": name}
            tokens[name] = config["users"][0]["user"]["token"]
        headers = {"Authorization": f"Bearer {tokens['admin']}"}
        async with httpx.AsyncClient(base_url=url, headers=headers, verify=False) as admin:
            (address,) = (await admin.get("/api")).json()["serverAddressByClientCIDRs"]
            assert f"https://{address['serverAddress']}" == url  # with the port that was chosen
            users = {}
            for name, token in tokens.items():
                path = "/apis/authentication.k8s.io/v1/tokenreviews"
                found = await admin.post(path, json={**REVIEW, "spec": {"token": token}})
                users[name] = found.json()["status"]["user"]["groups"]
        assert users == {
            "admin": ["system:masters", "system:authenticated"],
            "alice": ["system:authenticated"],
            "bob": ["dev", "system:authenticated"],
        }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("admin=a,alice=a", "a: is given for two outputs"),
        ("admin=free,alice=taken", "taken: exists already, and was not written"),
    ],
)
def test_no_file_is_written_twice_or_over_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("clusters: [{name: production}]\ncontexts: []\n")
    assert main(["serve", "--port", "0", "--client-config", text]) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "free").exists()
