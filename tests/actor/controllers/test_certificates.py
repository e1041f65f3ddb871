"""csrapproving, csrsigning and csrcleaner against the real API server."""

from __future__ import annotations

from base64 import b64decode

from cryptography import x509

from actors.controllers.certificates.decide import Signer, signer_names
from actors.controllers.certificates.issue import stand_in
from sim.api.types import Obj
from sim.ident import NAMES
from sim.kernel.kernel import DEFAULT_EPOCH_US
from sim.units import HOUR, SECOND
from tests.actor.controllers.workload import World, world
from tests.unit.sim.api.kinds.certificates.requests import csr, request_pem

N = NAMES["orch"]
CA = stand_in("ca", 5, DEFAULT_EPOCH_US)
LOOPS = ["csrapproving", "csrsigning", "csrcleaner"]
REQUESTS = "certificatesigningrequests"
APPROVED = {"type": "Approved", "status": "True"}


def request(signer: Signer, pem: bytes | None = None, **spec: object) -> Obj:
    made = csr(pem, signerName=signer_names(N)[signer], **spec)
    return {**made, "apiVersion": N.api_version("certificates", "v1")}


async def approve(found: World) -> None:
    patch = {"status": {"conditions": [APPROVED]}}
    reply = await found.plane.ask(
        "patch", REQUESTS, "", "c", body=patch, subresource="approval", content_type=N.media_merge_patch
    )
    assert reply.ok, reply.message


async def state(found: World) -> Obj:
    status: Obj = (await found.get(REQUESTS, "c"))["status"]
    return status


async def test_approved_request_gets_a_certificate_for_its_duration() -> None:
    async with world(LOOPS, signing=lambda _: CA) as found:
        await found.create(REQUESTS, request(Signer.CLIENT, expirationSeconds=3600))
        await found.settle(SECOND)
        assert "certificate" not in await state(found)
        await approve(found)
        await found.settle(SECOND)
        made = x509.load_pem_x509_certificate(b64decode((await state(found))["certificate"]))
        assert made.subject.rfc4514_string() == "CN=jane,O=dev"
        assert (made.not_valid_after_utc - made.not_valid_before_utc).total_seconds() == 3900


async def test_request_that_its_signer_refuses_is_failed() -> None:
    async with world(LOOPS, signing=lambda _: CA) as found:
        await found.create(REQUESTS, request(Signer.CLIENT, usages=["server auth"]))
        await approve(found)
        await found.settle(SECOND)
        status = await state(found)
        failed = status["conditions"][1]
        assert (failed["type"], failed["reason"]) == ("Failed", "SignerValidationFailure")
        assert failed["message"] == "invalid usage for client certificate: server auth"
        assert "certificate" not in status


async def test_client_request_of_a_node_agent_is_approved_and_signed() -> None:
    usages = ["client auth", "digital signature", "key encipherment"]
    pem = request_pem(f"{N.user_node_prefix}n1", (N.group_nodes,))
    async with world(LOOPS, signing=lambda _: CA) as found:
        await found.create(REQUESTS, request(Signer.AGENT, pem, usages=usages))
        await found.settle(SECOND)
        status = await state(found)
        assert status["conditions"][0]["reason"] == "AutoApproved"
        assert status["certificate"]


async def test_issued_request_is_deleted_after_its_hour() -> None:
    async with world(LOOPS, signing=lambda _: CA) as found:
        await found.create(REQUESTS, request(Signer.CLIENT))
        await approve(found)
        await found.settle(HOUR)
        assert await found.names(REQUESTS) == ["c"]
        await found.settle(HOUR + 10 * SECOND)
        assert await found.names(REQUESTS) == []
