"""API servers over a real etcd: two as replicas, and one that is started again."""

from __future__ import annotations

import base64
import json
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from sim.app.daemons.commands import main
from sim.wire.authority import Authority
from sim.wire.etcd import link
from sim.wire.tls import Pair, client_context
from tests.cluster.daemons.running import (
    api_server,
    client_of,
    config_of,
    etcd,
    free_port,
    needs_etcd,
    until,
)

MAPS = "/api/v1/namespaces/default/configmaps"


def create(client: httpx.Client, name: str) -> dict[str, str]:
    answer = client.post(MAPS, json={"metadata": {"name": name}, "data": {"name": name}})
    assert answer.status_code == 201, answer.text
    return dict(answer.json()["metadata"])


def value(url: str, key: str) -> bytes:
    """The value of a key in etcd."""
    body = {"key": base64.b64encode(key.encode()).decode()}
    return base64.b64decode(httpx.post(f"{url}/v3/kv/range", json=body).json()["kvs"][0]["value"])


def watched(client: httpx.Client, revision: str) -> list[tuple[str, str]]:
    """Type and name of what a watch from a revision shows within a second."""
    query = {"watch": "1", "resourceVersion": revision, "timeoutSeconds": "1"}
    events = [json.loads(line) for line in client.get(MAPS, params=query).text.splitlines()]
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


@pytest.mark.slow
@needs_etcd
def test_two_servers_on_one_etcd_behave_as_replicas(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
    with etcd(tmp_path) as (_, url):
        servers = f"--etcd-servers={url}"
        with (
            api_server(folders[0], servers) as (_, first),
            api_server(folders[1], servers) as (_, second),
            client_of(config_of(folders[0], first, "admin")) as a,
            client_of(config_of(folders[1], second, "admin")) as b,
        ):
            made = create(a, "one")
            got = b.get(f"{MAPS}/one").json()
            assert got["metadata"] == made
            assert [each["metadata"]["name"] for each in b.get(MAPS).json()["items"]] == ["one"]
            assert a.put(f"{MAPS}/one", json={**got, "data": {"by": "a"}}).status_code == 200
            lost = b.put(f"{MAPS}/one", json={**got, "data": {"by": "b"}})
            assert (lost.status_code, lost.json()["reason"]) == (409, "Conflict")
            assert b.post(MAPS, json={"metadata": {"name": "one"}}).status_code == 409
            assert a.delete(f"{MAPS}/one").status_code == 200
            assert watched(b, made["resourceVersion"]) == [("MODIFIED", "one"), ("DELETED", "one")]
            kept = create(b, "two")
            account = "/api/v1/namespaces/default/serviceaccounts"
            assert a.post(account, json={"metadata": {"name": "sa"}}).status_code == 201
            token = a.post(f"{account}/sa/token", json={}).json()["status"]["token"]
            shown = b.get("/api/v1/namespaces/default/endpoints/kubernetes").json()["subsets"][0]
            (address,) = [each["ip"] for each in shown["addresses"]]
            assert address.encode() in value(url, f"/registry/masterleases/{address}")
        assert value(url, "/registry/configmaps/default/two").startswith(b"k8s\0")
        with (
            api_server(folders[0], servers) as (_, again),
            client_of(config_of(folders[0], again, "admin")) as client,
        ):
            assert client.get(f"{MAPS}/two").json()["metadata"] == kept
            past = {"resourceVersion": made["resourceVersion"], "resourceVersionMatch": "Exact", "limit": "1"}
            assert [each["metadata"] for each in client.get(MAPS, params=past).json()["items"]] == [made]
            as_account = client.get(MAPS, headers={"Authorization": f"Bearer {token}"})
            assert as_account.status_code == 403  # the server still knows the account


EVENTS = "/api/v1/namespaces/default/events"
EVENT = {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}, "message": "m"}


@pytest.mark.slow
@needs_etcd
def test_events_end_with_their_lease_and_history_with_a_compaction(tmp_path: Path) -> None:
    options = ("--event-ttl=1s", "--etcd-compaction-interval=1s")
    with (
        etcd(tmp_path) as (_, url),
        api_server(tmp_path, f"--etcd-servers={url}", *options) as (_, address),
        client_of(config_of(tmp_path, address, "admin")) as client,
    ):
        log = tmp_path / "api-server.log"
        made = client.post(EVENTS, json=EVENT)
        assert made.status_code == 201, made.text
        first = create(client, "first")["resourceVersion"]
        until(lambda: client.get(f"{EVENTS}/e").status_code == 404, log)
        body = {"key": base64.b64encode(b"/").decode(), "revision": first}

        def compacted() -> bool:
            create(client, "more")
            client.delete(f"{MAPS}/more")
            return "compacted" in httpx.post(f"{url}/v3/kv/range", json=body).text

        until(compacted, log)
        old = {"resourceVersion": first, "resourceVersionMatch": "Exact", "limit": "1"}
        until(lambda: client.get(MAPS, params=old).status_code == 410, log)


@pytest.mark.slow
@needs_etcd
def test_a_server_outlives_its_etcd_and_ends_with_another_one(tmp_path: Path) -> None:
    log, port = tmp_path / "api-server.log", free_port()
    with ExitStack() as stack:
        with etcd(tmp_path, port=port) as (running, url):
            server, address = stack.enter_context(api_server(tmp_path, f"--etcd-servers={url}"))
            client = stack.enter_context(client_of(config_of(tmp_path, address, "admin")))
            first = create(client, "first")
            running.kill()
            running.wait()
            until(lambda: client.get("/readyz").status_code == 500, log)
            assert client.post(MAPS, json={"metadata": {"name": "lost"}}).status_code == 500
            assert client.get(MAPS, params={"resourceVersion": "0"}).json()["items"][0]["metadata"] == first
        with etcd(tmp_path, port=port):
            until(lambda: client.get("/readyz").status_code == 200, log)
            create(client, "second")
            assert watched(client, first["resourceVersion"]) == [("ADDED", "second")]
        (tmp_path / "etcd").rename(tmp_path / "other")
        with etcd(tmp_path, port=port):
            assert server.wait(60) == 1
    assert "--etcd-servers: the etcd is another cluster than at the start" in log.read_text()


@pytest.mark.slow
@needs_etcd
def test_writes_to_a_full_etcd_are_refused_with_its_reason(tmp_path: Path) -> None:
    with (
        etcd(tmp_path, "--quota-backend-bytes=1000000") as (_, url),
        api_server(tmp_path, f"--etcd-servers={url}") as (_, address),
        client_of(config_of(tmp_path, address, "admin")) as client,
    ):
        filled = {"metadata": {"generateName": "x-"}, "data": {"a": "b" * 300_000}}
        answers = [client.post(MAPS, json=filled) for _ in range(6)]
        assert [answer.status_code for answer in answers][-1] == 500
        assert answers[-1].json()["message"] == "etcdserver: mvcc: database space exceeded"
        assert client.get(MAPS).status_code == 200


def for_both(authority: Authority, host: str) -> Pair:
    """A certificate of a server and client, as kubeadm makes it: the gateway of etcd is a client."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    issuer = x509.load_pem_x509_certificate(authority.pem)
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(host))]), critical=False)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .sign(load_pem_private_key(authority.signing_pem.removeprefix(authority.pem), None), SHA256())
    )
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Pair(made.public_bytes(Encoding.PEM), secret)


@pytest.mark.slow
@needs_etcd
def test_etcd_is_reached_by_tls_and_by_the_next_of_its_servers(tmp_path: Path) -> None:
    authority = Authority("etcd-ca")
    pairs = {"server": for_both(authority, "127.0.0.1"), "client": authority.client("root", ())}
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    for name, pair in pairs.items():
        (tmp_path / f"{name}.crt").write_bytes(pair.certificate)
        (tmp_path / f"{name}.key").write_bytes(pair.key)
    tls = (
        f"--cert-file={tmp_path / 'server.crt'}",
        f"--key-file={tmp_path / 'server.key'}",
        f"--trusted-ca-file={tmp_path / 'ca.crt'}",
        "--client-cert-auth",
    )
    context = client_context(authority.pem, pairs["client"].certificate + pairs["client"].key)
    with etcd(tmp_path, *tls, context=context) as (_, url):
        options = (
            f"--etcd-servers=https://127.0.0.1:{free_port()},{url}",
            f"--etcd-cafile={tmp_path / 'ca.crt'}",
            f"--etcd-certfile={tmp_path / 'client.crt'}",
            f"--etcd-keyfile={tmp_path / 'client.key'}",
            "--etcd-prefix=/mine",
        )
        with (
            api_server(tmp_path, *options) as (_, address),
            client_of(config_of(tmp_path, address, "admin")) as client,
        ):
            made = create(client, "x")
            create(client, "y")
            assert watched(client, made["resourceVersion"]) == [("ADDED", "y")]
        body = {"key": base64.b64encode(b"/mine/configmaps/default/x").decode()}
        found = httpx.post(f"{url}/v3/kv/range", json=body, verify=context).json()
        assert found["kvs"][0]["mod_revision"] == made["resourceVersion"]


@pytest.mark.slow
def test_an_etcd_that_does_not_answer_is_one_line_and_status_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["kube-apiserver"])
    monkeypatch.setattr(link, "DIAL_S", 1.0)
    words = [f"--cert-dir={tmp_path}", f"--secure-port={free_port()}", "--bind-address=127.0.0.1"]
    assert main([*words, f"--etcd-servers=http://127.0.0.1:{free_port()}"]) == 1
    error = capsys.readouterr().err.splitlines()
    assert error[-1].startswith("kube-apiserver: --etcd-servers: etcd does not answer: http://127.0.0.1:")
