"""The controller manager: a process that runs the controllers while it holds the leader election
lease.

Turns options, a connection to the API servers and the table of controllers into the main function
of a process.

Holds: controllers start only while this process is the leader, and act only when all have started;
       a process that loses its lease exits at once, without finishing work or releasing anything;
       a restarted process has no memory of its predecessor.

Mirrors  kubernetes v1.25 cmd/kube-controller-manager/app/controllermanager.go (Run,
         StartControllers).
Differs  the API is not probed by /healthz and discovery before the controllers start, as informers
         retry anyway; no token is requested for a controller's service account: its user is
         assumed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import Any

from actors.controllers.shared.accounts import Accounts
from actors.controllers.shared.cloud import Cloud
from actors.controllers.shared.metrics_api import Metrics, NoMetrics
from actors.controllers.shared.shell import Env, RootCa, no_authority
from actors.controllers.table import LOOPS, Start
from sim.api.auth.web_tokens import Sign, digest_token
from sim.api.generated_names import new_uid
from sim.api.scheme.scheme import Scheme
from sim.api.types import Transport, UserInfo
from sim.client import DEFAULT_QPS, Client, ElectionOptions, EventRecorder, Informers, candidate
from sim.ident import Names
from sim.kernel import Context
from sim.options.controllers.leader_migration import LEASES, Lock, Migration
from sim.options.controllers.manager import ControllerManagerOptions

VERSION = "v1.25.16"
Connect = Callable[[Context], Sequence[Transport]]


def controller_manager_main(
    scheme: Scheme,
    connect: Connect,
    options: ControllerManagerOptions,
    *,
    loops: Mapping[str, Start] = LOOPS,
    root_ca: RootCa | None = None,
    metrics: Metrics | None = None,
    cloud: Cloud | None = None,
    sign_token: Sign = digest_token,
    signing: Callable[[str], str] = no_authority,
    together: bool = False,
) -> Callable[[Context], Awaitable[None]]:
    """The main function of a controller manager process.

    connect: returns the transports to the API servers, called once per incarnation
    loops: controllers by upstream's name; those that `--controllers` disables are not started
    root_ca: the certificate authority that is published in each namespace
    metrics: source of the metrics for autoscaling; None for a cluster without a metrics server
    cloud: the provider that `--cloud-provider` selects
    sign_token: signs the claims of a token with the key of service accounts
    signing: the authority of each signer of certificates, certificate and key as PEM
    together: True if informers wait until all controllers have begun, where answers may arrive
        before that; in a simulated cluster, controllers begin within an instant
    """

    async def main(ctx: Context) -> None:
        manager = Manager(ctx, scheme, connect(ctx), options, metrics, cloud, sign_token, signing, together)
        await manager.run(loops, root_ca or RootCa())

    return main


class Manager:
    """One incarnation of the controller manager process."""

    def __init__(
        self,
        ctx: Context,
        scheme: Scheme,
        transports: Sequence[Transport],
        options: ControllerManagerOptions,
        metrics: Metrics | None = None,
        cloud: Cloud | None = None,
        sign_token: Sign = digest_token,
        signing: Callable[[str], str] = no_authority,
        together: bool = False,
    ) -> None:
        self._ctx = ctx
        self._scheme = scheme
        self._names: Names = scheme.names
        self._transports = transports
        self._options = options
        self._metrics = NoMetrics(scheme.names) if metrics is None else metrics
        self._cloud = cloud
        self._sign_token = sign_token
        self._signing = signing
        self._together = together
        self._accounts: Accounts | None = None  # of controllers that use accounts of their own

    def client(self, name: str, qps: float, burst: int) -> Client:
        """A client for a controller, with its own token bucket and the user that the options
        select.
        """
        own_account = self._options.use_service_account_credentials
        if own_account:
            if self._accounts is None:
                manager = self._names.component("controller-manager")
                self._accounts = Accounts(self._ctx, self._root_client(manager))
            self._accounts.ensure(name)
        return self._client(name, qps, burst, user_of(self._names, name, own_account))

    def _root_client(self, name: str) -> Client:
        """A client with the user of the controller manager itself."""
        options = self._options
        return self._client(name, options.api_qps, options.api_burst, user_of(self._names, name, False))

    def _client(self, name: str, qps: float, burst: int, user: UserInfo) -> Client:
        agent = f"{self._names.component('controller-manager')}/{VERSION} {name}"
        return Client(
            self._ctx, self._scheme, self._transports, user, qps=qps or DEFAULT_QPS, burst=burst, agent=agent
        )

    async def run(self, loops: Mapping[str, Start], root_ca: RootCa) -> None:
        """Wait for the leader election lease, run the controllers, and exit when the lease is lost."""
        options, ctx = self._options, self._ctx

        if not options.leader_elect:
            await self._lead(loops, root_ca)
        migration, name = options.migration, self._names.component("controller-manager")
        own, migrated = split(loops, migration, name)
        holder = identity(ctx.name, ctx.stream("identity"))

        async def lead() -> None:
            if migration is not None:
                # The second lock is tried for once this one is held: one process holds both.
                ctx.spawn(self._lead_migrated, migrated, migration.lock_name, holder, root_ca)
            await self._lead(own, root_ca)

        await self._elect(
            options.leader_elect_resource_name, options.leader_elect_resource_lock, holder, lead
        )
        ctx.exit("leaderelection lost")

    async def _lead_migrated(
        self, loops: Mapping[str, Start], lock_name: str, holder: str, root_ca: RootCa
    ) -> None:
        """Run the migrated controllers under their lock, and exit when it is lost."""
        await self._elect(lock_name, LEASES, holder, lambda: self._lead(loops, root_ca, "start-migrated"))
        self._ctx.exit("migration leaderelection lost")

    async def _elect(self, name: str, kind: str, holder: str, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for a lock, run `lead`, and return when the lock is lost."""
        options, ctx = self._options, self._ctx
        periods = ElectionOptions.of(options, kind)
        lease = (options.leader_elect_resource_namespace, name)
        elector = candidate(ctx, self._root_client("leader-election"), lease, holder, periods)

        async def announced() -> None:
            component = self._names.component("controller-manager")
            elector.announce(EventRecorder(ctx, self._root_client(component), component))
            await lead()

        await elector.run(announced)

    async def _lead(self, loops: Mapping[str, Start], root_ca: RootCa, stream: str = "start-order") -> None:
        options, ctx = self._options, self._ctx
        order = ctx.stream(stream)
        resync_us = options.min_resync_period_us
        informers = Informers(
            ctx,
            self._root_client("shared-informers"),
            int(resync_us * (1 + order.random())),
        )

        def record_with(client: Client, component: str) -> EventRecorder:
            return EventRecorder(ctx, client, component)

        env = Env(
            ctx,
            self._scheme,
            self._names,
            informers,
            options,
            self.client,
            record_with,
            self._metrics,
            self._root_client,
            root_ca,
            self._cloud,
            self._sign_token,
            self._signing,
        )
        interval_us = options.controller_start_interval_us
        held = self._together or interval_us > 0
        if held:
            informers.hold()
        for name in start_order(loops, options, order):
            if interval_us:
                await ctx.sleep_us(int(interval_us * (1 + order.random())))
            ctx.spawn(loops[name], env, name=name)
        if held:
            await ctx.sleep_us(0)  # let the last controller reach its wait for the informers
            informers.release()
        await ctx.forever()


def split(
    loops: Mapping[str, Start], migration: Migration | None, component: str
) -> tuple[Mapping[str, Start], Mapping[str, Start]]:
    """The controllers under the main lock, and those under the lock of a migration."""
    if migration is None:
        return loops, {}
    # Tokens are made under the main lock always, since other controllers need them.
    locks = {
        name: Lock.MAIN if name == "serviceaccount-token" else migration.lock_of(name, component)
        for name in loops
    }
    of = {lock: {name: start for name, start in loops.items() if locks[name] is lock} for lock in Lock}
    return of[Lock.MAIN], of[Lock.MIGRATION]


def start_order(loops: Mapping[str, Any], options: ControllerManagerOptions, order: Random) -> list[str]:
    """The names of the controllers to start, in a random order."""
    names = sorted(name for name in loops if options.starts(name))
    order.shuffle(names)
    return names


def user_of(names: Names, client: str, own_account: bool) -> UserInfo:
    """The user of a client's requests.

    own_account: True if the controller uses a service account, named after the client
    """
    if not own_account:
        return UserInfo(names.user_controller_manager, (names.group_authenticated,))
    namespace = names.system_namespace
    return UserInfo(names.service_account_user(namespace, client), names.service_account_groups(namespace))


def identity(host: str, draw: Random) -> str:
    """The identity in the leader election lease: host_uuid, new for each incarnation."""
    return f"{host}_{new_uid(draw.getrandbits)}"
