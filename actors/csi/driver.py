"""The process of a storage driver: it provisions, attaches and expands volumes.

Turns a driver of the cluster into the main function of its process.

Holds: a process that starts has no memory of its predecessor; it acts only when its informers have
       synced.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from actors.csi.attacher import Attacher
from actors.csi.provisioner import Provisioner
from actors.csi.resizer import Resizer
from actors.csi.shell import BURST, QPS, Calls, DriverEnv
from sim.api.scheme.scheme import Scheme
from sim.api.types import Transport, UserInfo
from sim.client import Client, Informers
from sim.ident import Names
from sim.kernel import Context
from sim.options.storage_drivers import StorageDriver, StorageDrivers, driver_account

Connect = Callable[[Context], Sequence[Transport]]


def driver_main(
    scheme: Scheme, connect: Connect, driver: StorageDriver, drivers: StorageDrivers
) -> Callable[[Context], Awaitable[None]]:
    """The main function of a driver's process.

    connect: returns the transports to the API servers, called once per incarnation
    drivers: all drivers with their faults in force
    """

    async def main(ctx: Context) -> None:
        transports, user = connect(ctx), _user(scheme.names, driver.name)

        def client(part: str) -> Client:
            agent = f"csi-{part}"
            return Client(ctx, scheme, transports, user, qps=QPS, burst=BURST, agent=agent)

        env = DriverEnv(
            ctx,
            scheme,
            scheme.names,
            driver,
            drivers,
            Calls(ctx, drivers, driver.name),
            Informers(ctx, client("informers")),
            client,
        )
        parts: list[Provisioner | Resizer | Attacher] = [Provisioner(env), Resizer(env)]
        if driver.attach_required:
            parts.append(Attacher(env))
        for part in parts:
            part.listen()
        await env.informers.start_and_sync()
        for part in parts:
            part.start()
        await ctx.forever()

    return main


def _user(names: Names, driver: str) -> UserInfo:
    namespace = names.system_namespace
    account = names.service_account_user(namespace, driver_account(driver))
    return UserInfo(account, names.service_account_groups(namespace))
