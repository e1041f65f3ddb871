"""The admission chain: a decoded, defaulted object in; the object to be stored, or a `Denial`, out.

Turns (attributes of the request, object, read-only view of the cluster) into a decision, plugin by
plugin in the order of `PLUGINS`, which is upstream's.  A plugin exists by its line in that list.
`Chain.mutate` runs before the strategy's preparation and validation, `Chain.validate` after.

Holds: plugins read only their arguments.

Mirrors  kubernetes v1.25 pkg/kubeapiserver/options/plugins.go (order).
Differs  plugins that are not registered in `PLUGINS` do not exist here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from sim.api.admission.base import Attributes, Denial, Plugin, ValidatingPlugin, View
from sim.api.admission.plugins.classes import DefaultIngressClass, RuntimeClass
from sim.api.admission.plugins.default_tolerations import Defaults, DefaultTolerationSeconds
from sim.api.admission.plugins.limit_ranger import LimitRanger
from sim.api.admission.plugins.namespace_lifecycle import NamespaceLifecycle
from sim.api.admission.plugins.pod_security import PodSecurity
from sim.api.admission.plugins.priority import Priority
from sim.api.admission.plugins.service_account import ServiceAccount
from sim.api.admission.plugins.taint_nodes import TaintNodesByCondition
from sim.api.types import Obj
from sim.ident import Names


class Setup(NamedTuple):
    """What the plugins of one API server replica are made from.

    names: the identifiers of the cluster
    suffix_of: five letters for the name of a token volume, from a pod's spec and its service
        account
    defaults: options of the API server that plugins use
    """

    names: Names
    suffix_of: Callable[[Obj, Obj], str]
    defaults: Defaults


class Registration(NamedTuple):
    """One admission plugin: its name in --disable-admission-plugins, and how it is made.

    make: None for a plugin that is not a link of the chain because it writes
    """

    name: str
    make: Callable[[Setup], Plugin] | None


RESOURCE_QUOTA = "ResourceQuota"
# The one list of all admission plugins, in upstream's order
# (pkg/kubeapiserver/options/plugins.go: AllOrderedPlugins).
PLUGINS: tuple[Registration, ...] = (
    Registration("NamespaceLifecycle", lambda setup: NamespaceLifecycle(setup.names)),
    Registration("LimitRanger", lambda setup: LimitRanger(setup.names)),
    Registration("ServiceAccount", lambda setup: ServiceAccount(setup.names, setup.suffix_of)),
    Registration("TaintNodesByCondition", lambda setup: TaintNodesByCondition(setup.names)),
    Registration("PodSecurity", lambda setup: PodSecurity(setup.names)),
    Registration("Priority", lambda setup: Priority(setup.names)),
    Registration(
        "DefaultTolerationSeconds", lambda setup: DefaultTolerationSeconds(setup.names, setup.defaults)
    ),
    Registration("RuntimeClass", lambda setup: RuntimeClass()),
    Registration("DefaultIngressClass", lambda setup: DefaultIngressClass(setup.names)),
    Registration(RESOURCE_QUOTA, None),  # see `quota_charge`
)


def plugin_names() -> tuple[str, ...]:
    """The names of all admission plugins, in order."""
    return tuple(plugin.name for plugin in PLUGINS)


Mutate = Callable[[Attributes, Obj, View], Obj | Denial]
Validate = Callable[[Attributes, Obj, View], Denial | None]


class Chain:
    """The plugins of `PLUGINS` that are not disabled, in order.

    suffix_of: see `Setup`.  A function of both its arguments and not a draw, because pods of one
        template share what was admitted once, and a memo that drops an entry must not change a
        result.
    disabled: names of plugins that are off
    """

    def __init__(
        self,
        names: Names,
        suffix_of: Callable[[Obj, Obj], str],
        disabled: Iterable[str] = (),
        defaults: Defaults | None = None,
    ) -> None:
        off = tuple(disabled)
        setup = Setup(names, suffix_of, defaults or Defaults())
        self._on = [make(setup) for name, make in PLUGINS if make is not None and name not in off]
        self._plans: dict[tuple[str, str, str], tuple[list[Mutate], list[Validate]]] = {}

    def plan(self, operation: str, plural: str, subresource: str) -> tuple[list[Mutate], list[Validate]]:
        """The steps of both passes that requests of this kind go through."""
        kind = (operation, plural, subresource)
        known = self._plans.get(kind)
        if known is None:
            known = self._plans[kind] = (
                [p.mutate for p in self._on if p.concerns(*kind)],
                [p.validate for p in self._on if isinstance(p, ValidatingPlugin) and p.judges(*kind)],
            )
        return known

    def mutate(self, attributes: Attributes, obj: Obj, view: View) -> Obj | Denial:
        """The object after all plugins, or the first refusal. For delete, `obj` is the stored
        object.
        """
        kind = (attributes.operation, attributes.resource.rule, attributes.subresource)
        for step in self.plan(*kind)[0]:
            result = step(attributes, obj, view)
            if isinstance(result, Denial):
                return result
            obj = result
        return obj

    def validate(self, attributes: Attributes, obj: Obj, view: View) -> Denial | None:
        """The first refusal of the object as it would be stored."""
        kind = (attributes.operation, attributes.resource.rule, attributes.subresource)
        for step in self.plan(*kind)[1]:
            denial = step(attributes, obj, view)
            if denial is not None:
                return denial
        return None
