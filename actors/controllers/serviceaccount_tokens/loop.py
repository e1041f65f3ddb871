"""Token controller: fills Secrets of type service-account-token and removes those without account.

Holds: a token is made for the account that exists at that moment, under the name and uid that its
Secret's annotations give; the controller acts as the controller manager itself, never as a service
account.

Mirrors  kubernetes v1.25 pkg/controller/serviceaccount/tokens_controller.go,
         cmd/kube-controller-manager/app/controllermanager.go
         (serviceAccountTokenControllerStarter).
Differs  The cluster always has a key to sign with. The certificate authority may change while the
         process runs, and all Secrets get the new one. The delays between attempts to remove a
         reference have no jitter (upstream doubles them at most).
"""

from __future__ import annotations

from actors.controllers.serviceaccount_tokens.decide import (
    TOKEN,
    AccountKey,
    SecretKey,
    account_key,
    filled,
    is_token_secret,
    missing_fields,
    secret_key,
    token_owner,
    without_reference,
)
from actors.controllers.shared.shell import Env, aggregate, retry_on_conflict, run_workers
from sim.api.auth.account_tokens import legacy_claims
from sim.api.types import Obj, Reply
from sim.units import MS

CLIENT = "tokens-controller"
ACCOUNT_INDEX = "service account"  # Secrets by the account of their token
REMOVE_US = (100 * MS,) * 9  # RemoveTokenBackoff
RETRIES_MAX = 10  # NewTokensController: maxRetries


async def start(env: Env) -> None:
    """Run the token controller until its process ends."""
    await TokenController(env).run()


class TokenController:
    """Shell of the controller: one queue of accounts and one of Secrets."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._names = env.names
        self._client = env.root_client(CLIENT)
        self._accounts = env.informers["serviceaccounts"]
        self._secrets = env.informers["secrets"]
        self._secrets.add_index(ACCOUNT_INDEX, self._account_of)
        self._account_queue = env.queue("serviceaccount_tokens_service")
        self._secret_queue = env.queue("serviceaccount_tokens_secret")

    async def run(self) -> None:
        """Start the handlers and the workers."""
        env = self._env
        self._accounts.on(
            add=self._account_changed,
            update=lambda _, new: self._account_changed(new),
            delete=self._account_changed,
        )
        self._secrets.on(
            add=self._secret_changed,
            update=lambda _, new: self._secret_changed(new),
            delete=self._secret_changed,
        )
        env.ctx.on_stop(env.root_ca.on_change(lambda: env.ctx.call_later_us(0, self._authority_changed)))
        await env.informers.start_and_sync()
        workers = env.options.concurrent_service_account_token_syncs
        run_workers(env, self._account_queue, self._sync_account, workers, RETRIES_MAX)
        run_workers(env, self._secret_queue, self._sync_secret, workers, RETRIES_MAX)

    def _account_of(self, secret: Obj) -> tuple[str, ...]:
        if not is_token_secret(secret, self._names):
            return ()
        return ("/".join(token_owner(secret, self._names)),)

    def _authority_changed(self, _: object) -> None:
        for secret in self._secrets.list():
            self._secret_changed(secret)

    def _account_changed(self, account: Obj) -> None:
        self._account_queue.add(account_key(account))

    def _secret_changed(self, secret: Obj) -> None:
        if is_token_secret(secret, self._names):
            self._secret_queue.add(secret_key(secret, self._names))

    async def _sync_account(self, key: AccountKey) -> str | None:
        """Delete the Secrets of an account that is gone."""
        if self._cached_account(key.namespace, key.name, key.uid) is not None:
            return None
        errors: list[str] = []
        for secret in self._secrets.by_index(ACCOUNT_INDEX, "/".join(key)):
            error = await self._delete(secret_key(secret, self._names))
            errors += [error] if error else []
        return aggregate(errors)

    async def _sync_secret(self, key: SecretKey) -> str | None:
        if not key.account:
            return None  # an invalid Secret: upstream reports it and does not retry
        secret = self._secrets.get(f"{key.namespace}/{key.name}")
        if secret is None or secret["metadata"]["uid"] != key.uid:
            if self._cached_account(key.namespace, key.account, key.account_uid) is not None:
                await self._remove_reference(key)
            return None
        account = self._cached_account(key.namespace, key.account, key.account_uid)
        if account is None:
            live = await self._client.get("serviceaccounts", key.namespace, key.account)
            if not live.ok and live.reason != "NotFound":
                return live.message
            if not live.ok or not _is(live.obj, key.account_uid):
                return await self._delete(key)
            account = live.obj
        return await self._fill(secret, account)

    def _cached_account(self, namespace: str, name: str, uid: str) -> Obj | None:
        account = self._accounts.get(f"{namespace}/{name}")
        return account if account is not None and _is(account, uid) else None

    async def _fill(self, cached: Obj, account: Obj) -> str | None:
        authority = self._env.root_ca.pem
        if not missing_fields(cached, authority):
            return None
        metadata = cached["metadata"]
        live = await self._client.get("secrets", metadata["namespace"], metadata["name"])
        if not live.ok:
            return None if live.reason == "NotFound" else live.message
        secret = live.obj
        if secret["metadata"]["resourceVersion"] != metadata["resourceVersion"]:
            return None  # the update that the cache lacks will come
        missing = missing_fields(secret, authority)
        token = (
            self._env.sign_token(legacy_claims(self._names, account, metadata["name"]))
            if TOKEN in missing
            else ""
        )
        reply = await self._client.update("secrets", filled(secret, account, authority, token, self._names))
        return None if reply.ok or reply.reason in ("Conflict", "NotFound") else reply.message

    async def _delete(self, key: SecretKey) -> str | None:
        reply = await self._client.delete("secrets", key.namespace, key.name, uid=key.uid)
        return None if reply.ok or reply.reason in ("Conflict", "NotFound") else reply.message

    async def _remove_reference(self, key: SecretKey) -> None:
        async def attempt() -> Reply:
            live = await self._client.get("serviceaccounts", key.namespace, key.account)
            if not live.ok:
                return live
            account = without_reference(live.obj, key)
            return live if account is None else await self._client.update("serviceaccounts", account)

        await retry_on_conflict(self._env.ctx, REMOVE_US, attempt)


def _is(account: Obj, uid: str) -> bool:
    """True if an account has this uid; "" stands for any."""
    return not uid or account["metadata"]["uid"] == uid
