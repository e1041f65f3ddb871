"""Webhooks that pods serve: the API server calls them over the network of pods."""

from __future__ import annotations

import datetime as dt
from base64 import b64encode
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from sim.api.types import Obj, Reply, Request
from sim.app.cluster import Cluster
from sim.app.dialling.certificates import problem_of
from sim.app.plain_plan import plain_nodes
from sim.scenario.plan.plan import ClusterPlan
from sim.units import SECOND, Wall, parse_time
from tests.actor.apiserver.cluster import ADMIN, request
from tests.cluster.cli.test_webhooks import GROUP, RULE, N

IMAGE = "registry.k8s.io/e2e-test-images/agnhost:2.40"
NAME, NOW = "hook.default.svc", "2026-01-01T00:02:00Z"
LONG = dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.datetime(2040, 1, 1, tzinfo=dt.UTC)


class Signer:
    """An authority."""

    def __init__(self, name: str = "ca") -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = self.sign(self.name, self.key.public_key(), None, LONG, is_ca=True)

    def sign(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        name: str | None,
        dates: tuple[dt.datetime, dt.datetime],
        *,
        is_ca: bool = False,
    ) -> x509.Certificate:
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject).issuer_name(self.name).public_key(key).serial_number(1)
            .not_valid_before(dates[0]).not_valid_after(dates[1])
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        )  # fmt: skip
        if name is not None:
            builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        return builder.sign(self.key, hashes.SHA256())

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def server(
        self, name: str | None = NAME, dates: tuple[dt.datetime, dt.datetime] = LONG, common: str = ""
    ) -> bytes:
        """A certificate of a server."""
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common)] if common else []
        made = self.sign(x509.Name(attributes), key.public_key(), name, dates)
        return made.public_bytes(serialization.Encoding.PEM)


@cache
def signer() -> Signer:
    return Signer()


def objects(certificate: bytes, *args: str, port: int = 8443) -> list[Obj]:
    """The pod of a webhook, its certificate and its Service."""
    data = {"tls.crt": b64encode(certificate).decode(), "tls.key": b64encode(b"key").decode()}
    flags = [
        "--tls-cert-file=/certs/tls.crt",
        "--tls-private-key-file=/certs/tls.key",
        "--alsologtostderr",
        "-v=4",
    ]
    container = {
        "name": "c", "image": IMAGE, "args": [*args, *flags, f"--port={port}"],
        "volumeMounts": [{"name": "certs", "mountPath": "/certs", "readOnly": True}],
        "readinessProbe": {"httpGet": {"scheme": "HTTPS", "port": port, "path": "/readyz"}, "periodSeconds": 1},
    }  # fmt: skip
    volumes = [{"name": "certs", "secret": {"secretName": "certs"}}]
    meta = {"namespace": "default"}
    return [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {**meta, "name": "certs"}, "data": data},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {**meta, "name": "hook", "labels": {"app": "hook"}},
         "spec": {"containers": [container], "volumes": volumes}},
        {"apiVersion": "v1", "kind": "Service", "metadata": {**meta, "name": "hook"},
         "spec": {"selector": {"app": "hook"}, "ports": [{"port": 443, "targetPort": port}]}},
    ]  # fmt: skip


def client_config(path: str, authority: bytes | None = None) -> Obj:
    bundle = b64encode(signer().pem if authority is None else authority).decode()
    return {"service": {"namespace": "default", "name": "hook", "path": path}, "caBundle": bundle}


def configuration(kind: str, path: str, resource: str = "configmaps", **fields: Any) -> Obj:
    hook = {
        "name": "a.example.com", "clientConfig": client_config(path),
        "rules": [{**RULE, "resources": [resource]}], "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "failurePolicy": "Fail", "timeoutSeconds": 3, **fields,
    }  # fmt: skip
    return {
        "apiVersion": GROUP,
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": "w"},
        "webhooks": [hook],
    }


async def answered(cluster: Cluster, verb: str, resource: str, body: Obj | None, name: str = "") -> Reply:
    """The reply to a request, with the time that it needs."""
    found: list[Reply] = []
    namespace = "default" if resource in ("configmaps", "pods") else ""
    sent = request(verb, resource, namespace, name, body=body, user=ADMIN)
    cluster.api_servers["apiserver-0"].handle(sent, found.append, _raised)
    await cluster.run_until(f"{cluster.kernel.now_us + 10 * SECOND}us")
    return found[0]


def _raised(_: object, error: Exception) -> None:
    raise error


def config_map(name: str, **data: str) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
        "data": data,
    }


def plan() -> ClusterPlan:
    return replace(ClusterPlan(), nodes=plain_nodes(2))


@pytest.mark.slow
async def test_admission_webhooks_of_a_pod_judge_and_change_objects() -> None:
    async with Cluster(plan(), seed=1) as cluster:
        await cluster.run_until("60s")
        cluster.hand_in(objects(signer().server(), "webhook"))
        await cluster.run_until("100s")
        cluster.hand_in([configuration("Validating", "/configmaps")])
        await cluster.run_until("105s")
        refused = await answered(
            cluster, "create", "configmaps", config_map("a", **{"webhook-e2e-test": "webhook-disallow"})
        )
        text = 'admission webhook "a.example.com" denied the request: the configmap contains unwanted key and value'
        assert (refused.code, refused.body["message"]) == (400, text)
        assert (await answered(cluster, "create", "configmaps", config_map("b", x="y"))).code == 201
        cluster.hand_in([configuration("Mutating", "/mutating-configmaps", reinvocationPolicy="IfNeeded")])
        await cluster.run_until(f"{cluster.kernel.now_us + 5 * SECOND}us")
        made = await answered(cluster, "create", "configmaps", config_map("c", **{"mutation-start": "yes"}))
        assert made.code == 201
        stored = cluster.get("configmaps", "c")
        assert stored is not None
        assert stored["data"] == {"mutation-start": "yes", "mutation-stage-1": "yes"}
        cluster.hand_in([configuration("Validating", "/always-allow-delay-5s")])
        await cluster.run_until(f"{cluster.kernel.now_us + 5 * SECOND}us")
        late = await answered(cluster, "create", "configmaps", config_map("d"))
        called = 'failed calling webhook "a.example.com": failed to call webhook: Post "https://hook.default.svc:443'
        assert late.body["message"].endswith("context deadline exceeded")
        assert called in late.body["message"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bundle", "args", "why"),
    [
        (Signer("other").pem, ("webhook",), "x509: certificate signed by unknown authority"),
        (None, ("netexec", "--http-port=8443"), "http: server gave HTTP response to HTTPS client"),
    ],
)
async def test_a_webhook_of_a_pod_that_is_not_trusted_is_a_failed_call(
    bundle: bytes | None, args: tuple[str, ...], why: str
) -> None:
    async with Cluster(plan(), seed=1) as cluster:
        await cluster.run_until("60s")
        made = objects(signer().server(), *args)
        if bundle is None:
            del made[1]["spec"]["containers"][0]["readinessProbe"]
        cluster.hand_in(made)
        await cluster.run_until("100s")
        cluster.hand_in(
            [configuration("Validating", "/configmaps", clientConfig=client_config("/x", bundle))]
        )
        await cluster.run_until("105s")
        found = await answered(cluster, "create", "configmaps", config_map("a"))
        assert found.code == 500
        assert found.body["message"].endswith(why)


@pytest.mark.slow
async def test_a_conversion_webhook_of_a_pod_converts_custom_objects() -> None:
    version = {
        "served": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    definition = {
        "apiVersion": N.api_version("apiextensions", "v1"),
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "hosts.stable.example.com"},
        "spec": {
            "group": "stable.example.com", "scope": "Cluster",
            "names": {"plural": "hosts", "kind": "Host"},
            "versions": [{**version, "name": "v1", "storage": True}, {**version, "name": "v2", "storage": False}],
            "conversion": {"strategy": "Webhook", "webhook": {
                "clientConfig": client_config("/crdconvert"), "conversionReviewVersions": ["v1"]}},
        },
    }  # fmt: skip
    async with Cluster(plan(), seed=1) as cluster:
        await cluster.run_until("60s")
        cluster.hand_in([*objects(signer().server(), "crd-conversion-webhook"), definition])
        await cluster.run_until("100s")
        one = {
            "apiVersion": "stable.example.com/v1",
            "kind": "Host",
            "metadata": {"name": "h"},
            "hostPort": "a:80",
        }
        found: list[Reply] = []
        named = {"resource": "hosts", "group": "stable.example.com", "user": ADMIN}
        for asked in (
            Request(verb="create", version="v1", body=one, **named),
            Request(verb="get", version="v2", name="h", **named),
        ):
            cluster.api_servers["apiserver-0"].handle(asked, found.append, _raised)
            await cluster.run_until(f"{cluster.kernel.now_us + 10 * SECOND}us")
        assert [reply.code for reply in found] == [201, 200]
        read = found[1].item.obj
        assert (read["host"], read["port"], read.get("hostPort")) == ("a", "80", None)


def test_a_certificate_is_judged_by_its_authority_its_names_and_its_dates() -> None:
    now = Wall(parse_time(NOW))
    own, other = signer(), Signer("other")
    past = LONG[0], dt.datetime(2025, 1, 1, tzinfo=dt.UTC)
    future = dt.datetime(2030, 1, 1, tzinfo=dt.UTC), LONG[1]
    begins = f"x509: certificate has expired or is not yet valid: current time {NOW} is"
    cases = [
        (own.pem, own.server(), ""),
        (own.pem, own.server("*.default.svc"), ""),
        (own.server()[:0], own.server(), "x509: certificate signed by unknown authority"),
        (other.pem, own.server(), "x509: certificate signed by unknown authority"),
        (own.pem, own.server("b.c"), f"x509: certificate is valid for b.c, not {NAME}"),
        (own.pem, own.server(None, common=NAME),
         "x509: certificate relies on legacy Common Name field, use SANs instead"),
        (own.pem, own.server(None), f"x509: certificate is not valid for any names, but wanted to match {NAME}"),
        (own.pem, own.server(dates=past), f"{begins} after 2025-01-01T00:00:00Z"),
        (own.pem, own.server(dates=future), f"{begins} before 2030-01-01T00:00:00Z"),
        (own.pem, b"none", "tls: failed to parse certificate from server"),
    ]  # fmt: skip
    for authorities, chain, why in cases:
        assert problem_of(authorities, now, chain, NAME) == why
