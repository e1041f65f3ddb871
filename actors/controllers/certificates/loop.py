"""The controllers csrapproving, csrsigning and csrcleaner.

Mirrors  kubernetes v1.25 pkg/controller/certificates/certificate_controller.go,
         {approver/sarapprove,signer/signer,cleaner/cleaner}.go;
         cmd/kube-controller-manager/app/certificates.go.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Awaitable, Callable
from functools import partial

from actors.controllers.certificates.decide import (
    CLEANING_PERIOD_US,
    Signer,
    access_review,
    approved,
    duration_us,
    is_to_be_cleaned,
    is_to_be_signed,
    recognitions,
    refused,
    signer_names,
    signer_problem,
)
from actors.controllers.shared.shell import Env, run_workers
from sim.api.kinds.certificates.certificate_signing_request import request_bytes
from sim.api.kinds.certificates.pem import parse_request
from sim.api.objects import get_in, name_of, spec_of
from sim.api.types import Obj, Reply
from sim.client import WorkQueue
from sim.client.rest.limiter import ItemExponential, MaxOf, SharedBucket
from sim.units import MS, SECOND

CLIENT = "certificate-controller"
REQUESTS = "certificatesigningrequests"
WORKERS = 5
Handle = Callable[[Obj], Awaitable[str | None]]


def _begin(env: Env, name: str, handle: Handle) -> Callable[[], None]:
    """Queue the requests without a certificate for `handle`; returns the start of the workers."""
    csrs = env.informers[REQUESTS]
    limiter = MaxOf(ItemExponential(200 * MS, 1000 * SECOND), SharedBucket())
    queue = WorkQueue(env.ctx, name, limiter)

    def changed(csr: Obj) -> None:
        queue.add(name_of(csr))

    async def sync(key: str) -> str | None:
        csr = csrs.get(key)
        if csr is None or get_in(csr, ("status", "certificate")):
            return None
        return await handle(csr)

    csrs.on(add=changed, update=lambda _, new: changed(new), delete=changed)
    return lambda: run_workers(env, queue, sync, WORKERS)


async def start_approving(env: Env) -> None:
    """Run csrapproving: requests of node agents for client certificates are approved."""
    client = env.client(CLIENT)

    async def handle(csr: Obj) -> str | None:
        try:
            found = recognitions(csr, env.names)
        except ValueError as error:
            return f'unable to parse csr "{name_of(csr)}": {error}'
        for recognition in found:
            reply = await client.create(
                "subjectaccessreviews", "", access_review(csr, recognition, env.names)
            )
            if not reply.ok:
                return reply.message
            if _is_allowed(reply):
                reply = await client.update(REQUESTS, approved(csr, recognition.message), "approval")
                return None if reply.ok else f"error updating approval for csr: {reply.message}"
        if not found:
            return None
        tried = " ".join(recognition.subresource for recognition in found)
        return f'recognized csr "{name_of(csr)}" as [{tried}] but subject access review was not approved'

    start = _begin(env, "csrapproving", handle)
    await env.informers.start_and_sync()
    start()


def _is_allowed(reply: Reply) -> bool:
    body = reply.body if reply.item is None else reply.obj
    return isinstance(body, dict) and bool((body.get("status") or {}).get("allowed"))


async def start_signing(env: Env) -> None:
    """Run csrsigning: approved requests to the signers of the cluster get certificates."""
    client = env.client(CLIENT)

    async def sign(signer: Signer, name: str, csr: Obj) -> str | None:
        if not is_to_be_signed(csr, name):
            return None
        wall_us, usages = env.ctx.wall_us(), spec_of(csr).get("usages") or ()
        try:
            request = parse_request(request_bytes(csr) or b"")
        except ValueError as error:
            return f'unable to parse csr "{name_of(csr)}": {error}'
        problem = signer_problem(signer, request, usages, env.names)
        if problem:
            reply = await client.update(REQUESTS, refused(csr, problem, wall_us), "status")
            return None if reply.ok else f"error adding failure condition for csr: {reply.message}"
        # Few clusters sign anything, and the import takes a while.
        from actors.controllers.certificates.issue import issue

        valid_us = duration_us(csr, env.options.cluster_signing_duration_us)
        try:
            certificate = issue(env.signing(name), request, usages, valid_us, wall_us)
        except ValueError as error:
            return f"error auto signing csr: {error}"
        reply = await client.update(REQUESTS, _signed(csr, certificate), "status")
        return None if reply.ok else f"error updating signature for csr: {reply.message}"

    starts = [
        _begin(env, signer.value, partial(sign, signer, name))
        for signer, name in signer_names(env.names).items()
        if env.options.signs(signer.value)
    ]
    await env.informers.start_and_sync()
    for start in starts:
        start()


def _signed(csr: Obj, certificate: bytes) -> Obj:
    encoded = b64encode(certificate).decode()
    return {**csr, "status": {**(csr.get("status") or {}), "certificate": encoded}}


async def start_cleaning(env: Env) -> None:
    """Run csrcleaner: each hour, requests that have served their time are deleted."""
    ctx, client = env.ctx, env.client(CLIENT)
    csrs = env.informers[REQUESTS]
    await env.informers.start_and_sync()
    while True:
        for csr in csrs.list():
            if is_to_be_cleaned(csr, ctx.wall_us()):
                await client.delete(REQUESTS, "", name_of(csr))
        await ctx.sleep_us(CLEANING_PERIOD_US)
