"""The admission chain: a decoded, defaulted object in; the object to be stored, or a `Denial`, out.

Turns (attributes of the request, object, read-only view of the cluster) into a decision, plugin by
plugin in the order of `PLUGINS`, which is upstream's.  A plugin exists by its line in that list.
`Chain.mutate` runs before the strategy's preparation and validation, `Chain.validate` after.

Holds: plugins read only their arguments; EventRateLimit alone has a state.

Mirrors  kubernetes v1.25 pkg/kubeapiserver/options/{plugins,admission}.go (order, which are on).
Differs  see `WITHOUT_EFFECT` for the plugins that do not exist here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from sim.api.admission.base import (
    Attributes,
    Denial,
    MutatingPlugin,
    Operation,
    Plugin,
    ValidatingPlugin,
    View,
)
from sim.api.admission.configuration import EVENT_RATE_LIMIT, Configuration
from sim.api.admission.plugins.always import AlwaysAdmit, AlwaysDeny, AlwaysPullImages
from sim.api.admission.plugins.certificates import (
    CertificateApproval,
    CertificateSigning,
    CertificateSubjectRestriction,
)
from sim.api.admission.plugins.claims import (
    DefaultStorageClass,
    PersistentVolumeClaimResize,
    StorageObjectInUseProtection,
)
from sim.api.admission.plugins.classes import DefaultIngressClass, RuntimeClass
from sim.api.admission.plugins.event_rate_limit import EventRateLimit
from sim.api.admission.plugins.limit_ranger import LimitRanger
from sim.api.admission.plugins.namespace_lifecycle import NamespaceLifecycle
from sim.api.admission.plugins.namespaces import NamespaceExists
from sim.api.admission.plugins.node_restriction import NodeRestriction
from sim.api.admission.plugins.owner_references import OwnerReferencesPermissionEnforcement
from sim.api.admission.plugins.pods.default_tolerations import Defaults, DefaultTolerationSeconds
from sim.api.admission.plugins.pods.denials import LimitPodHardAntiAffinityTopology, SecurityContextDeny
from sim.api.admission.plugins.pods.image_policy import NAME as IMAGE_POLICY
from sim.api.admission.plugins.pods.image_policy import ImagePolicyWebhook
from sim.api.admission.plugins.pods.node_selector import PodNodeSelector
from sim.api.admission.plugins.pods.priority import Priority
from sim.api.admission.plugins.pods.security import PodSecurity
from sim.api.admission.plugins.pods.service_account import ServiceAccount
from sim.api.admission.plugins.pods.tolerations import ExtendedResourceToleration, PodTolerationRestriction
from sim.api.admission.plugins.service_external_ips import DenyServiceExternalIPs
from sim.api.admission.plugins.taint_nodes import TaintNodesByCondition
from sim.api.types import Obj
from sim.errors import InputError, suggestion_or_all
from sim.ident import Names


class Setup(NamedTuple):
    """What the plugins of one API server replica are made from.

    names: the identifiers of the cluster
    suffix_of: five letters for the name of a token volume, from a pod's spec and its service
        account
    defaults: options of the API server that plugins use
    configuration: of plugins, from the file of --admission-control-config-file
    """

    names: Names
    suffix_of: Callable[[Obj, Obj], str]
    defaults: Defaults
    configuration: Configuration


class Registration(NamedTuple):
    """One admission plugin: its name in the options, and how it is made.

    mutates, validates: the operations of each pass in which it counts as called, of any resource,
        by the letters of `OPERATIONS`
    make: None for a plugin that is not a link of the chain because it writes
    optional: True if the plugin is off unless --enable-admission-plugins names it
    """

    name: str
    mutates: str
    validates: str
    make: Callable[[Setup], Plugin] | None
    optional: bool = False


def _optional(
    name: str, mutates: str, validates: str, make: Callable[[Setup], Plugin] | None
) -> Registration:
    return Registration(name, mutates, validates, make, optional=True)


# By the letters of a registration; mirrors the NewHandler of plugin/pkg/admission/*/admission.go.
OPERATIONS: Mapping[Operation, str] = {"create": "c", "update": "u", "delete": "d", "connect": "x"}


NAMESPACE_AUTO_PROVISION = "NamespaceAutoProvision"
RESOURCE_QUOTA = "ResourceQuota"
MUTATING_WEBHOOK, VALIDATING_WEBHOOK = "MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"
# The one list of all admission plugins, in upstream's order
# (pkg/kubeapiserver/options/plugins.go: AllOrderedPlugins).
PLUGINS: tuple[Registration, ...] = (
    _optional("AlwaysAdmit", "cudx", "cudx", lambda setup: AlwaysAdmit()),
    _optional(NAMESPACE_AUTO_PROVISION, "c", "", None),  # see `provision`
    Registration("NamespaceLifecycle", "cud", "", lambda setup: NamespaceLifecycle(setup.names)),
    _optional("NamespaceExists", "", "cud", lambda setup: NamespaceExists()),
    _optional("SecurityContextDeny", "", "cu", lambda setup: SecurityContextDeny()),
    _optional(
        "LimitPodHardAntiAffinityTopology",
        "",
        "cu",
        lambda setup: LimitPodHardAntiAffinityTopology(setup.names),
    ),
    Registration("LimitRanger", "cu", "cu", lambda setup: LimitRanger(setup.names)),
    Registration("ServiceAccount", "cu", "cu", lambda setup: ServiceAccount(setup.names, setup.suffix_of)),
    _optional("NodeRestriction", "cud", "", lambda setup: NodeRestriction(setup.names)),
    Registration("TaintNodesByCondition", "c", "", lambda setup: TaintNodesByCondition(setup.names)),
    _optional("AlwaysPullImages", "cu", "cu", lambda setup: AlwaysPullImages()),
    _optional(
        IMAGE_POLICY,
        "",
        "cu",
        lambda setup: ImagePolicyWebhook(setup.names, setup.configuration.image_policy),
    ),
    Registration(
        "PodSecurity", "", "cu", lambda setup: PodSecurity(setup.names, setup.configuration.pod_security)
    ),
    _optional(
        "PodNodeSelector",
        "c",
        "c",
        lambda setup: PodNodeSelector(setup.names, setup.configuration.node_selectors),
    ),
    Registration("Priority", "cud", "cud", lambda setup: Priority(setup.names)),
    Registration(
        "DefaultTolerationSeconds",
        "cu",
        "",
        lambda setup: DefaultTolerationSeconds(setup.names, setup.defaults),
    ),
    _optional(
        "PodTolerationRestriction",
        "cu",
        "cu",
        lambda setup: PodTolerationRestriction(setup.names, setup.configuration.tolerations),
    ),
    _optional(EVENT_RATE_LIMIT, "", "cu", lambda setup: EventRateLimit(setup.configuration.event_limits)),
    _optional("ExtendedResourceToleration", "cu", "", lambda setup: ExtendedResourceToleration()),
    Registration("DefaultStorageClass", "c", "", lambda setup: DefaultStorageClass(setup.names)),
    Registration(
        "StorageObjectInUseProtection", "c", "", lambda setup: StorageObjectInUseProtection(setup.names)
    ),
    _optional(
        "OwnerReferencesPermissionEnforcement", "", "cu", lambda setup: OwnerReferencesPermissionEnforcement()
    ),
    Registration(
        "PersistentVolumeClaimResize", "", "u", lambda setup: PersistentVolumeClaimResize(setup.names)
    ),
    Registration("RuntimeClass", "c", "c", lambda setup: RuntimeClass()),
    Registration("CertificateApproval", "", "u", lambda setup: CertificateApproval()),
    Registration("CertificateSigning", "", "u", lambda setup: CertificateSigning()),
    Registration(
        "CertificateSubjectRestriction", "", "c", lambda setup: CertificateSubjectRestriction(setup.names)
    ),
    Registration("DefaultIngressClass", "c", "", lambda setup: DefaultIngressClass(setup.names)),
    _optional("DenyServiceExternalIPs", "", "cu", lambda setup: DenyServiceExternalIPs()),
    Registration(MUTATING_WEBHOOK, "cudx", "", None),  # these two wait for answers: see `webhooks`
    Registration(VALIDATING_WEBHOOK, "", "cudx", None),
    Registration(RESOURCE_QUOTA, "", "cu", None),  # see `quota_charge`
    _optional("AlwaysDeny", "cudx", "cudx", lambda setup: AlwaysDeny()),
)
# Upstream's other plugins, each with what it would need.  They come with these kinds.
WITHOUT_EFFECT: Mapping[str, str] = {
    "PersistentVolumeLabel": "no cloud provider knows the zones of volumes",
}


def plugin_names() -> tuple[str, ...]:
    """The names of all admission plugins, in order."""
    return tuple(plugin.name for plugin in PLUGINS)


def check_plugins(
    enabled: Iterable[str], disabled: Iterable[str], configuration: Configuration, place: Callable[[str], str]
) -> None:
    """Raises InputError for names in the options that no plugin has, or that have no effect.

    place: of an option, for errors
    """
    options = (("enable-admission-plugins", [*enabled]), ("disable-admission-plugins", [*disabled]))
    for option, given in options:
        for name in given:
            if name in WITHOUT_EFFECT:
                text = f"admission plugin {name} has no effect here: {WITHOUT_EFFECT[name]}"
                raise InputError(text, place(option), "leave it out")
            if name not in plugin_names():
                text = f"there is no admission plugin {name!r} here"
                raise InputError(text, place(option), suggestion_or_all(name, plugin_names()))
    (first, on), (second, off) = options
    both = sorted(name for name in dict.fromkeys(on) if name in off)
    if both:
        text = f"[{' '.join(both)}] in {first} and {second} overlapped"
        raise InputError(text, place(second), "leave each out of one of them")
    if EVENT_RATE_LIMIT in on and not configuration.event_limits:
        text = f"admission plugin {EVENT_RATE_LIMIT} has no limits"
        raise InputError(text, place(first), "give them in admission-control-config-file")
    if IMAGE_POLICY in on and not configuration.image_policy.kubeconfig:
        text = f"admission plugin {IMAGE_POLICY} has no service"
        raise InputError(text, place(first), "give its kubeConfigFile in admission-control-config-file")


Mutate = Callable[[Attributes, Obj, View], Obj | Denial]
Validate = Callable[[Attributes, Obj, View], Denial | None]


class Chain:
    """The plugins of `PLUGINS` that are on, in order.

    suffix_of: see `Setup`.  A function of both its arguments and not a draw, because pods of one
        template share what was admitted once, and a memo that drops an entry must not change a
        result.
    enabled: names of optional plugins that are on; a name in both lists is on, as upstream
    disabled: names of plugins that are off
    """

    def __init__(
        self,
        names: Names,
        suffix_of: Callable[[Obj, Obj], str],
        disabled: Iterable[str] = (),
        defaults: Defaults | None = None,
        enabled: Iterable[str] = (),
        configuration: Configuration | None = None,
    ) -> None:
        on, off = tuple(enabled), tuple(disabled)
        running = [p for p in PLUGINS if p.name in on or not (p.optional or p.name in off)]
        setup = Setup(names, suffix_of, defaults or Defaults(), configuration or Configuration())
        self.running = tuple(plugin.name for plugin in running)
        made = [(plugin.name, plugin.make(setup)) for plugin in running if plugin.make is not None]
        self._on = [plugin for _, plugin in made]
        self._names = {id(plugin): name for name, plugin in made}
        self.refuser = ""  # the name of the plugin that refused last
        self._plans: dict[tuple[Operation, str, str], tuple[list[Mutate], list[Validate]]] = {}

    def plan(
        self, operation: Operation, plural: str, subresource: str
    ) -> tuple[list[Mutate], list[Validate]]:
        """The steps of both passes that requests of this kind go through."""
        kind = (operation, plural, subresource)
        known = self._plans.get(kind)
        if known is None:
            known = self._plans[kind] = (
                [p.mutate for p in self._on if isinstance(p, MutatingPlugin) and p.concerns(*kind)],
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
                self.refuser = self._name_of(step)
                return result
            obj = result
        return obj

    def validate(self, attributes: Attributes, obj: Obj, view: View) -> Denial | None:
        """The first refusal of the object as it would be stored."""
        kind = (attributes.operation, attributes.resource.rule, attributes.subresource)
        for step in self.plan(*kind)[1]:
            denial = step(attributes, obj, view)
            if denial is not None:
                self.refuser = self._name_of(step)
                return denial
        return None

    def _name_of(self, step: Mutate | Validate) -> str:
        return self._names[id(step.__self__)]  # type: ignore[union-attr]
