"""The process of a node's proxy: it follows Services and their endpoints, and writes rules.

Holds: a table that is being written holds what had arrived when the write began; rules stay when
       the process ends, and are lost with the power of the machine.

Mirrors  cmd/kube-proxy/app/server.go, pkg/proxy/config/config.go, iptables/proxier.go (v1.25):
         nothing is written before both lists have arrived; then the first write is not delayed.
Differs  a write takes a time for itself and one for each endpoint, which stand for iptables-restore
         with all rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from actors.node.proxy.frequency import LONGEST_US, Frequency
from actors.node.proxy.rules import Learned, Rules
from sim.api.scheme.scheme import Scheme
from sim.api.types import Obj, Transport, UserInfo
from sim.client import Client, Informers
from sim.ident import Names
from sim.kernel import Context
from sim.kernel.timer import Timer
from sim.options.node.proxy import ProxyOptions

QPS, BURST = 5, 10  # of its client: pkg/proxy/apis/config/v1alpha1/defaults.go


class Written:
    """The rules of one node.  rules: None before the first write since the machine has booted"""

    __slots__ = ("rules",)

    def __init__(self) -> None:
        self.rules: Rules | None = None


def proxy_main(
    node: str,
    scheme: Scheme,
    names: Names,
    connect: Callable[[Context], Sequence[Transport]],
    options: ProxyOptions,
    written: Written,
) -> Callable[[Context], None]:
    """The main function of the proxy of a node.  written: where its rules go"""

    def main(ctx: Context) -> None:
        user = UserInfo(names.user_proxy, (names.group_authenticated,))
        client = Client(ctx, scheme, connect(ctx), user, qps=QPS, burst=BURST, agent="kube-proxy")
        _Proxy(ctx, names, Informers(ctx, client), options, written, node)

    return main


class _Proxy:
    """One incarnation."""

    def __init__(
        self,
        ctx: Context,
        names: Names,
        informers: Informers,
        options: ProxyOptions,
        written: Written,
        node: str,
    ) -> None:
        self._ctx, self._options, self._written, self._node = ctx, options, written, node
        self._learned = Learned(names)
        self._frequency = Frequency(options.min_sync_us)
        self._timer: Timer | None = None
        self._begun = self._writing = self._again = False
        self._kind = ctx.kernel.kind("rules", "node", "services", "endpoints")
        labels = f"!{names.label_proxy_name},!{names.label_headless}"
        self._informers = [informers.selected(one, labels=labels) for one in ("services", "endpointslices")]
        for informer, learn in zip(
            self._informers, (self._learned.service, self._learned.slice), strict=True
        ):
            take = partial(self._take, learn)
            informer.on(
                add=take,
                update=partial(_newest, take),
                delete=partial(self._take, partial(learn, deleted=True)),
            )
            informer.when_synced(self._synced)
        informers.start()

    def _take(self, learn: Callable[[Obj], bool], obj: Obj) -> None:
        if learn(obj) and self._begun:
            self._want()

    def _synced(self) -> None:
        if not self._begun and all(informer.synced for informer in self._informers):
            self._begun = True
            self._write()

    def _want(self, _: object = None) -> None:
        """Write as soon as the frequency allows it."""
        if self._writing:
            self._again = True
            return
        wait_us = self._frequency.wait_us(self._ctx.now_us())
        if wait_us:
            self._wake_in(wait_us)
        else:
            self._write()

    def _wake_in(self, wait_us: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._ctx.timer_us(wait_us, self._want)

    def _write(self) -> None:
        self._writing, self._again = True, False
        rules, options = self._learned.rules(), self._options
        self._ctx.call_later_us(
            options.sync_us + rules.endpoints * options.endpoint_us, self._write_ended, rules
        )

    def _write_ended(self, rules: Any) -> None:
        self._writing, self._written.rules = False, rules
        self._ctx.record(self._kind, (self._node, len(rules.services), rules.endpoints))
        self._frequency.ended(self._ctx.now_us())
        self._wake_in(LONGEST_US)
        if self._again:
            self._want()


def _newest(take: Callable[[Obj], None], _: Obj, obj: Obj) -> None:
    """Take what an update has made."""
    take(obj)
