"""Token controller: fills Secrets of type service-account-token and removes those without account.

With the gate LegacyServiceAccountTokenNoAutoGeneration off, it makes one for each account.

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
    has_referenced_token,
    is_token_secret,
    missing_fields,
    new_secret,
    secret_key,
    token_owner,
    with_reference,
    without_reference,
)
from actors.controllers.shared.shell import RETRY_US, Env, aggregate, retry_on_conflict, run_workers
from sim.api.auth.account_tokens import legacy_claims
from sim.api.generated_names import generated_name
from sim.api.types import Obj, Reply
from sim.options.features.gates import NO_TOKEN_SECRETS, enabled
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
        self._generates = not enabled(env.options.feature_gates, NO_TOKEN_SECRETS)
        self._random = env.ctx.stream("names of token secrets")
        self._made: dict[str, list[Obj]] = {}  # by the uid of their account

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
        """Delete the Secrets of an account that is gone; make one for an account that has none,
        if the gate says so.
        """
        account = self._cached_account(key.namespace, key.name, key.uid)
        if account is not None:
            return await self._ensure_token(account) if self._generates else None
        errors: list[str] = []
        self._made.pop(key.uid, None)
        for secret in self._secrets.by_index(ACCOUNT_INDEX, "/".join(key)):
            error = await self._delete(secret_key(secret, self._names))
            errors += [error] if error else []
        return aggregate(errors)

    def _has_token(self, account: Obj) -> bool:
        known = {each["metadata"]["uid"]: each for each in self._made.get(account["metadata"]["uid"], ())}
        cached = self._secrets.by_index(ACCOUNT_INDEX, "/".join(account_key(account)))
        return has_referenced_token(account, [*known.values(), *cached])

    async def _ensure_token(self, account: Obj) -> str | None:
        metadata = account["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        if self._has_token(account):
            return None
        live = await self._client.get("serviceaccounts", namespace, name)
        if not live.ok:
            return live.message
        if live.obj["metadata"]["resourceVersion"] != metadata["resourceVersion"]:
            return "the account in the cache is not the newest one"
        made = generated_name(f"{name}-token-", self._random.getrandbits)
        token = self._env.sign_token(legacy_claims(self._names, account, made))
        secret = new_secret(account, made, self._env.root_ca.pem, token, self._names)
        created = await self._client.create("secrets", namespace, secret)
        if not created.ok:
            causes = ((created.body or {}).get("details") or {}).get("causes") or ()
            ends = any(each.get("reason") == "NamespaceTerminating" for each in causes)
            return None if ends else created.message
        # It counts before the cache shows it, or the update of the account would lead to another.
        self._made.setdefault(metadata["uid"], []).append(created.obj)
        return await self._refer(live.obj, created.obj)

    async def _refer(self, live: Obj, secret: Obj) -> str | None:
        """Add the reference to a new Secret; without it the Secret is deleted again."""
        known: list[Obj] = [live]
        added = False

        async def attempt() -> Reply:
            nonlocal added
            metadata = live["metadata"]
            if not known:
                found = await self._client.get("serviceaccounts", metadata["namespace"], metadata["name"])
                if not found.ok:
                    return found
                if found.obj["metadata"]["uid"] != metadata["uid"] or self._has_token(found.obj):
                    return found
                known.append(found.obj)
            account = with_reference(known.pop(), secret["metadata"]["name"])
            reply = await self._client.update("serviceaccounts", account)
            added = added or reply.ok
            return reply

        reply = await retry_on_conflict(self._env.ctx, RETRY_US, attempt)
        if not added:
            await self._delete(secret_key(secret, self._names))
        return None if reply.ok or reply.reason in ("Conflict", "NotFound") else reply.message

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
