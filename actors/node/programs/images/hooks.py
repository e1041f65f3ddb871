"""The programs of charts' hook Jobs: kube-webhook-certgen, and cert-manager's check of its API.

Mirrors  kube-webhook-certgen 1.3: cmd/create.go, cmd/patch.go, pkg/k8s/k8s.go; cert-manager
         cmd/ctl/pkg/check/api.
Differs  the keys are Ed25519 and follow from the names, so that a run repeats.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from actors.node.programs.ends import send
from actors.node.programs.images.flags import flags_of
from actors.node.programs.process import Process
from actors.node.programs.surroundings import Answer
from actors.node.programs.waits import Main, Wait
from sim.api.types import NOT_FOUND, Reply
from sim.units import SECOND, format_time, parse_duration_us

VALID = timedelta(days=36_500)
RETRY_US = 5 * SECOND
_GROUPS = (
    ("validating", "validatingwebhookconfigurations"), ("mutating", "mutatingwebhookconfigurations"),
)  # fmt: skip

Steps = Generator[Wait, None, None]


class _Fatal(Exception):
    """The program gives up; the text says why."""


def ask(process: Process, *request: Any, **fields: Any) -> Generator[Wait, None, Reply]:
    """Send a request to the API server, and wait for the answer.

    request: verb, resource, namespace and name
    """
    send_request = process.container.ask
    if send_request is None:
        return Reply(code=0)
    answer: Answer = send_request(*request, **fields)
    while not answer.ready:
        yield Wait((answer,))
    assert answer.reply is not None
    return answer.reply


def certgen(process: Process) -> Main:
    """Create a Secret with certificates, or write its authority into webhooks."""
    given, rest = flags_of(process.words[1:])
    runs = {"create": _create, "patch": _patch}.get(rest[0] if rest else "")
    if runs is None:
        process.container.unknown(f"kube-webhook-certgen has no command {' '.join(rest)}")
        return 1
    try:
        yield from runs(process, given)
    except _Fatal as fatal:
        yield from _log(process, str(fatal), "fatal")
        return 1
    return 0


def _log(process: Process, text: str, level: str = "info") -> Steps:
    when = format_time(process.container.wall_us(process.now_us))
    line = json.dumps({"level": level, "msg": text, "time": when}, separators=(",", ":"))
    yield from send(process.ends[2], line.encode() + b"\n")


def _authority(process: Process, given: dict[str, str]) -> Generator[Wait, None, str | None]:
    """The authority in the Secret; None without a Secret."""
    namespace, name = given.get("namespace", ""), given.get("secret-name", "")
    reply = yield from ask(process, "get", "secrets", namespace, name)
    if reply.code == NOT_FOUND:
        return None
    data = (reply.item.obj.get("data") or {}) if reply.item is not None else {}
    if "ca" not in data:
        why = f"got secret, but it did not contain a 'ca' key: {_reason(reply)}"
        raise _Fatal(why if reply.item is not None else f"error getting secret: {_reason(reply)}")
    return str(data["ca"])


def _reason(reply: Reply) -> str:
    return (
        str((reply.body or {}).get("message", reply.code))
        if isinstance(reply.body, dict)
        else str(reply.code)
    )


def _create(process: Process, given: dict[str, str]) -> Steps:
    if (yield from _authority(process, given)) is not None:
        yield from _log(process, "secret already exists")
        return
    yield from _log(process, "creating new secret")
    namespace, name = given.get("namespace", ""), given.get("secret-name", "")
    hosts = given.get("host", "").split(",")
    authority, certificate, key = certificates(f"{namespace}/{name}", hosts, _now(process))
    values = {"ca": authority, given.get("cert-name", "cert"): certificate, given.get("key-name", "key"): key}
    secret = {
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace},
        "data": {entry: b64encode(value).decode() for entry, value in values.items()},
    }  # fmt: skip
    reply = yield from ask(process, "create", "secrets", namespace, body=secret)
    if reply.item is None:
        raise _Fatal(f"failed creating secret: {_reason(reply)}")


def _patch(process: Process, given: dict[str, str]) -> Steps:
    authority = yield from _authority(process, given)
    if authority is None:
        where = given.get("secret-name", ""), given.get("namespace", "")
        raise _Fatal(f"no secret with '{where[0]}' in '{where[1]}'")
    name, policy = given.get("webhook-name", ""), given.get("patch-failure-policy", "")
    chosen = [(kind, plural) for kind, plural in _GROUPS if given.get(f"patch-{kind}", "true") == "true"]
    flags = ", ".join(f"{kind}={str((kind, plural) in chosen).lower()}" for kind, plural in reversed(_GROUPS))
    yield from _log(process, f"patching webhook configurations '{name}' {flags}, failurePolicy={policy}")
    for _, plural in chosen:
        reply = yield from ask(process, "get", plural, "", name)
        if reply.item is None:
            raise _Fatal(f"failed getting validating webhook: {_reason(reply)}")
        found = reply.item.obj
        webhooks = [
            {
                **webhook, "clientConfig": {**webhook["clientConfig"], "caBundle": authority},
                **({"failurePolicy": policy} if policy else {}),
            }
            for webhook in found.get("webhooks") or ()
        ]  # fmt: skip
        reply = yield from ask(process, "update", plural, "", name, body={**found, "webhooks": webhooks})
        if reply.item is None:
            raise _Fatal(f"failed patching webhook: {_reason(reply)}")
    yield from _log(process, "Patched hook(s)")


def _now(process: Process) -> datetime:
    return datetime.fromtimestamp(process.container.wall_us(process.now_us) // SECOND, UTC)


def certificates(subject: str, hosts: list[str], now: datetime) -> tuple[bytes, bytes, bytes]:
    """PEM of an authority, and of a server's certificate for names and its key.

    subject: what the keys follow from
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.x509.oid import NameOID

    keys = [
        Ed25519PrivateKey.from_private_bytes(sha256(f"{subject}/{at}".encode()).digest()) for at in (0, 1)
    ]
    names = [x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, f"nil{at + 1}")]) for at in (0, 1)]
    made = []
    for at, key in enumerate(keys):
        builder = (
            x509.CertificateBuilder(names[0], names[at], key.public_key(), at + 1)
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + VALID)
            .add_extension(x509.BasicConstraints(ca=not at, path_length=None), critical=True)
        )
        if at:
            alternatives = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts if host])
            builder = builder.add_extension(alternatives, critical=False)
        made.append(builder.sign(keys[0], None).public_bytes(Encoding.PEM))
    return made[0], made[1], keys[1].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def startup_api_check(process: Process) -> Main:
    """Wait until the API server takes cert-manager's resources: `check api --wait=TIME`."""
    given, _ = flags_of(process.words[1:], ("v",))
    try:
        until_us = process.now_us + parse_duration_us(given.get("wait", "0s"))
    except ValueError:
        until_us = process.now_us
    while True:
        reply = yield from ask(process, "list", "certificates.cert-manager.io", _namespace(process))
        if reply.code not in (0, NOT_FOUND):
            yield from send(process.ends[1], b"The cert-manager API is ready\n")
            return 0
        if process.now_us >= until_us:
            yield from send(process.ends[2], b"error: timed out waiting for the condition\n")
            return 1
        text = "Not ready: the cert-manager CRDs are not yet installed on the Kubernetes API server\n"
        yield from send(process.ends[2], text.encode())
        again_us = process.now_us + RETRY_US
        while process.now_us < again_us:
            yield Wait(until_us=again_us)


def _namespace(process: Process) -> str:
    return process.env.get("POD_NAMESPACE") or str(process.container.namespace)
