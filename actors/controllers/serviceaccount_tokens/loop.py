"""Token controller: fills Secrets of type service-account-token and removes those without account.

Turns changes of accounts, of Secrets and of the certificate authority into keys, and carries out
the steps of each sync. With the gate LegacyServiceAccountTokenNoAutoGeneration off, it makes one
Secret for each account.

Holds: nothing is decided here; the steps are those of `sync`. The controller acts as the controller
       manager itself, never as a service account.

Mirrors  kubernetes v1.25 pkg/controller/serviceaccount/tokens_controller.go,
         cmd/kube-controller-manager/app/controllermanager.go
         (serviceAccountTokenControllerStarter).
Differs  The cluster always has a key to sign with. The certificate authority may change while the
         process runs, and all Secrets get the new one.
"""

from __future__ import annotations

from typing import assert_never

from actors.controllers.serviceaccount_tokens.decide import (
    AccountKey,
    SecretKey,
    account_key,
    is_token_secret,
    new_secret,
    secret_key,
    token_owner,
)
from actors.controllers.serviceaccount_tokens.sync import ACCOUNTS, SECRETS, Action, Make, Remove, Seen, Syncs
from actors.controllers.shared.shell import Env, run_workers
from actors.controllers.shared.steps import DONE, Get, Sleep, Update, carry_out
from sim.api.auth.account_tokens import legacy_claims
from sim.api.generated_names import generated_name
from sim.api.types import Obj, Reply
from sim.options.features.gates import NO_TOKEN_SECRETS, enabled

CLIENT = "tokens-controller"
ACCOUNT_INDEX = "service account"  # Secrets by the account of their token
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
        self._accounts = env.informers[ACCOUNTS]
        self._secrets = env.informers[SECRETS]
        self._secrets.add_index(ACCOUNT_INDEX, self._account_of)
        self._account_queue = env.queue("serviceaccount_tokens_service")
        self._secret_queue = env.queue("serviceaccount_tokens_secret")
        self._random = env.ctx.stream("names of token secrets")
        seen = Seen(
            self._names,
            self._accounts.get,
            self._secrets.get,
            lambda key: self._secrets.by_index(ACCOUNT_INDEX, "/".join(key)),
            env.root_ca,
            self._sign,
            not enabled(env.options.feature_gates, NO_TOKEN_SECRETS),
        )
        self._syncs = Syncs(seen)

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
        return await carry_out(self._syncs.account(key), self._do)

    async def _sync_secret(self, key: SecretKey) -> str | None:
        return await carry_out(self._syncs.secret(key), self._do)

    async def _do(self, action: Action) -> Reply:
        client = self._client
        match action:
            case Get(resource, namespace, name):
                return await client.get(resource, namespace, name)
            case Make(account):
                made = generated_name(f"{account['metadata']['name']}-token-", self._random.getrandbits)
                token = self._sign(account, made)
                secret = new_secret(account, made, self._env.root_ca.pem, token, self._names)
                return await client.create(SECRETS, account["metadata"]["namespace"], secret)
            case Update(resource, obj):
                return await client.update(resource, obj)
            case Remove(secret):
                return await client.delete(SECRETS, secret.namespace, secret.name, uid=secret.uid)
            case Sleep(us):
                await self._env.ctx.sleep_us(us)
                return DONE
            case _:
                assert_never(action)

    def _sign(self, account: Obj, secret: str) -> str:
        return self._env.sign_token(legacy_claims(self._names, account, secret))
