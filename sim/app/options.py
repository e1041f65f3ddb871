"""The flags of a cluster plan as typed options of each daemon, or one error with its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from actors.apiserver.options import UNCACHED, ApiServerOptions
from actors.node.resources.checks import problem_of
from actors.node.thresholds import reserved_nano
from sim.api.admission.chain import check_plugins
from sim.api.admission.configuration import Configuration, read_configuration
from sim.api.admission.plugins.node_restriction import agent_may_set
from sim.api.admission.plugins.pods.default_tolerations import Defaults
from sim.api.admission.plugins.pods.image_policy import RECEIVER as IMAGE_POLICY
from sim.api.auth.abac import Policy, PolicyError, read_policies
from sim.api.auth.account_tokens import TokenRules
from sim.api.auth.webhook_authorizer import RECEIVER as AUTHORIZATION
from sim.api.auth.webhook_authorizer import WebhookSettings
from sim.api.kinds.common.taints import taint_errors
from sim.api.scheme.runtime_config import turned_off
from sim.api.scheme.scheme import Scheme
from sim.api.validation.metadata import labels
from sim.app.audit.settings import read_settings
from sim.dataclass import dataclass
from sim.errors import InputError, Problems, suggestion
from sim.ident import NAMES, Names
from sim.options.apiserver.audit import BATCH
from sim.options.apiserver.audit import WEBHOOK as AUDIT_WEBHOOK
from sim.options.apiserver.authentication import AuthenticationFlags
from sim.options.apiserver.server import POLICY_FILE, ApiServerFlags, ReplicaFlags, parse_api_server
from sim.options.base import effects_of, idle_reason, mapping, options_of, raw_option
from sim.options.controllers.manager import ControllerManagerOptions, parse_controller_manager
from sim.options.features.gates import FEATURE_GATES, enabled, gates_of, idle_gates
from sim.options.features.idle import reason
from sim.options.groups.election import ElectionFlags
from sim.options.groups.metrics import MetricsFlags
from sim.options.machines import SWAPS_HEAD, swap_row
from sim.options.node.agent import NodeAgentOptions, parse_node_agent
from sim.options.node.configuration import with_configuration
from sim.options.node.machine import KERNEL_DEFAULTS
from sim.options.scheduler import SchedulerOptions, parse_scheduler
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan, NodePlan
from sim.scenario.read.option_file import OptionFile, OptionFiles
from sim.units import NANO, SECOND, format_quantity_nano, quantity_nano, quantity_style

if TYPE_CHECKING:
    from sim.wire.outside.receiver import Receiver


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Options of every daemon of a cluster.

    nodes: by node name
    off: group, version and plural of resources that are not served
    schedulers: further ones, by name
    tokens: how tokens of service accounts are issued
    authentication: how clients from outside are authenticated
    metrics: which metric families each kind of process shows
    """

    api_server: ApiServerOptions
    controller_manager: ControllerManagerOptions
    scheduler: SchedulerOptions
    nodes: dict[str, NodeAgentOptions]
    tokens: TokenRules
    authentication: AuthenticationFlags
    metrics: Mapping[str, MetricsFlags]
    off: frozenset[tuple[str, str, str]] = frozenset()
    schedulers: Mapping[str, SchedulerOptions] = field(default_factory=dict)

    @property
    def election_leases(self) -> dict[str, tuple[str, str]]:
        """Namespace and name of the Lease by which the replicas of each component elect a leader."""
        both: Mapping[str, ElectionFlags] = {
            "controller-manager": self.controller_manager,
            "scheduler": self.scheduler,
        }
        return {
            part: (flags.leader_elect_resource_namespace, flags.leader_elect_resource_name)
            for part, flags in both.items()
        }


def check_options(plan: ClusterPlan) -> ClusterOptions:
    """Parse and check all flags.  Raises InputError."""
    names = NAMES[plan.naming]
    server, manager, scheduler = plan.api_server, plan.controller_manager, plan.scheduler
    nodes = _check_daemons(plan, names)
    flags = parse_api_server(server.flags, names=names, place=server.place, places=server.places)
    try:
        off = turned_off(flags.runtime_config, names)
    except ValueError as error:
        raise InputError(str(error), server.places.get("runtime-config", server.place)) from None
    controllers = parse_controller_manager(
        manager.flags, names=names, place=manager.place, places=manager.places
    )
    schedulers = parse_scheduler(scheduler.flags, names=names, place=scheduler.place, places=scheduler.places)
    problems = Problems()
    with problems.part():
        _check_cache_sizes(flags, names, off, server.places.get("watch-cache-sizes", server.place))
    with problems.part():
        _check_controllers(controllers, manager.places.get("controllers", manager.place))
    with problems.part():
        _check_server(controllers.server, server.replicas, manager)
    with problems.part():
        _check_server(schedulers.server, server.replicas, scheduler)
    with problems.part():
        audit = read_settings(flags, names, files_of(server))
    with problems.part():
        api_server = api_server_options(flags, files_of(server), server.replicas, names)
    problems.report()
    return ClusterOptions(
        replace(api_server, audit=audit, capacity_nano=server.capacity_nano),
        controllers,
        schedulers,
        nodes,
        token_rules(flags, names),
        flags,
        {"apiserver": flags, "controller-manager": controllers, "scheduler": schedulers},
        off,
        _more_schedulers(plan, schedulers, names),
    )


def _more_schedulers(plan: ClusterPlan, first: SchedulerOptions, names: Names) -> dict[str, SchedulerOptions]:
    """The options of further schedulers: by default each has a profile and a lease of its own name.

    Raises InputError, also if two schedulers have a profile of one name.
    """
    profiles = {profile.name: "scheduler" for profile in first.profiles}
    options = {}
    for name, part in plan.schedulers.items():
        own = dict.fromkeys(("scheduler-name", "leader-elect-resource-name"), name)
        if raw_option(part.flags, "config"):
            own = {}
        flags = {
            "leader-elect": False,
            **own,
            **{key.removeprefix("--"): one for key, one in part.flags.items()},
        }
        options[name] = parse_scheduler(flags, names=names, place=part.place, places=part.places)
        for profile in options[name].profiles:
            if profile.name in profiles:
                what = f"{profiles[profile.name]} and {name} both place the pods of {profile.name!r}"
                raise InputError(what, part.place, "give one of them another schedulerName")
            profiles[profile.name] = name
    return options


def files_of(part: ComponentPlan | NodePlan) -> OptionFiles:
    """The files that the options of a daemon name."""
    return OptionFiles(part.place, part.places)


def _check_daemons(plan: ClusterPlan, names: Names) -> dict[str, NodeAgentOptions]:
    """The options of each node.  Raises InputError with the errors of the flags of every daemon."""
    problems = Problems()
    for part, parse in (
        (plan.api_server, parse_api_server),
        (plan.controller_manager, parse_controller_manager),
        (plan.scheduler, parse_scheduler),
    ):
        with problems.part():
            parse(part.flags, names=names, place=part.place, places=part.places)
    of_group: dict[int, NodeAgentOptions | None] = {}
    nodes = {}
    for node in plan.nodes:
        # Nodes of one group share one mapping of flags, which is parsed once.
        group = id(node.flags)
        if group not in of_group:
            of_group[group] = None
            with problems.part():
                of_group[group] = node_agent_options(node, names)
        options = of_group[group]
        if options is not None:
            nodes[node.name] = options
            with problems.part():
                _check_server(options.server, plan.api_server.replicas, node)
    problems.report()
    return nodes


def token_rules(flags: AuthenticationFlags, names: Names) -> TokenRules:
    """How tokens of service accounts are issued."""
    issuers = flags.issuers(names.issuer_service_account)
    return TokenRules(
        issuers,
        flags.api_audiences or issuers,
        flags.service_account_extend_token_expiration,
        flags.service_account_max_token_expiration_us // SECOND,
    )


def _check_cache_sizes(
    flags: ApiServerFlags, names: Names, off: frozenset[tuple[str, str, str]], place: str
) -> None:
    """Check that each names an existing resource, and change whether that has a watch cache."""
    sizes = flags.watch_cache_sizes
    entry = {each.group_resource: each.rule for each in Scheme(names, off).resources} if sizes else {}
    for name, size in sizes.items():
        if name not in entry:
            raise InputError(f"there is no resource {name!r}", place, suggestion(name, sorted(entry)))
        if (size > 0) is not (entry[name] in UNCACHED):
            raise InputError(
                f"watch-cache-sizes: {name}#{size} has no effect",
                place,
                "only 0 has an effect (for events, only larger sizes)",
            )


def idle_options(plan: ClusterPlan) -> list[str]:
    """Flags that are accepted without effect, as upstream accepts them; users are informed of
    them.
    """
    manager = plan.controller_manager
    evictions = [
        f"{manager.places.get(name, manager.place)}: option {name.removeprefix('--')} changes nothing: "
        "pods are evicted by taints, after their tolerationSeconds"
        for name in manager.flags
        if name.removeprefix("--") == "pod-eviction-timeout"
    ]
    daemons: list[tuple[ComponentPlan | NodePlan, str]] = [
        (plan.api_server, "API server"),
        (manager, "controller manager"),
        (plan.scheduler, "scheduler"),
        *((node, "node agent") for node in {id(each.flags): each for each in plan.nodes}.values()),
    ]
    names = NAMES[plan.naming]
    nodes = {id(node.flags): node for node in plan.nodes}.values()
    return [
        *evictions,
        *(text for node in nodes for text in _idle_flags(node, names)),
        *(text for part, daemon in daemons for text in _idle_gates(part, daemon, names)),
    ]


def _idle_flags(node: NodePlan, names: Names) -> list[str]:
    """The options of an agent that are taken without an effect, where they change their default."""
    flags, places = with_configuration(node.flags, names, node.place, node.places)
    effects, result = effects_of(NodeAgentOptions), []
    for declared in options_of(NodeAgentOptions).values():
        name = declared.spelled(names)
        entry, why = raw_option(flags, name), idle_reason(effects[declared.name])
        if entry is None or not why:
            continue
        try:
            changes = declared.value(entry, names) != declared.value(declared.default, names)
        except ValueError:  # it is refused, when the options are read
            continue
        if changes:
            place = places.get(name) or places.get(f"--{name}") or node.place
            result.append(f"{place}: option {name} changes nothing: {why}")
    return result


_DAEMONS: Mapping[str, type[Any]] = {
    "API server": ApiServerFlags,
    "controller manager": ControllerManagerOptions,
    "scheduler": SchedulerOptions,
    "node agent": NodeAgentOptions,
}


def _idle_gates(part: ComponentPlan | NodePlan, daemon: str, names: Names) -> list[str]:
    """The gates of one daemon that are set without an effect, each with the reason."""
    flags, places = part.flags, part.places
    if isinstance(part, NodePlan):
        flags, places = with_configuration(flags, names, part.place, places)
    entry = raw_option(flags, FEATURE_GATES)
    try:
        result = idle_gates(mapping(entry), gates_of(_DAEMONS[daemon].__name__)) if entry else []
    except (KeyError, ValueError):  # it is refused, when the options are read
        return []
    place = places.get(FEATURE_GATES, part.place)
    owners = {
        gate: [name for name, one in _DAEMONS.items() if gate in gates_of(one.__name__)] for gate in result
    }
    return [f"{place}: feature gate {gate} changes nothing: {reason(gate, owners[gate])}" for gate in result]


def _check_controllers(options: ControllerManagerOptions, place: str) -> None:
    """A controller that is named must exist here; `*` means all existing ones, and a missing one
    may be switched off.
    """
    for entry in options.controllers:
        if entry != "*" and not entry.startswith("-"):
            from actors.controllers.table import LOOPS  # which imports all controllers

            if entry not in LOOPS:
                current = f"there are: {', '.join(LOOPS)}"
                raise InputError(f"there is no controller {entry} here", place, current)
        lacks = options.lacks(entry)
        if lacks is not None:
            name, value = lacks
            raise InputError(f"{entry} does nothing without {name}", place, f"set {name}: {value}")


def _check_server(name: str, replicas: int, part: ComponentPlan | NodePlan) -> None:
    """The only server that a daemon uses must exist."""
    servers = [f"apiserver-{index}" for index in range(replicas)]
    if name and name not in servers:
        place = part.places.get("master", part.place)
        raise InputError(f"there is no API server {name}", place, f"there are: {', '.join(servers)}")


def node_agent_options(node: NodePlan, names: Names) -> NodeAgentOptions:
    """The options of a node's agent.  Raises InputError also for labels that an agent must not set.

    Mirrors cmd/kubelet/app/options/options.go: ValidateKubeletFlags (v1.25).
    """
    flags, places = with_configuration(node.flags, names, node.place, node.places)
    node = replace(node, flags=flags, places=places)
    options = parse_node_agent(flags, names=names, place=node.place, places=places)
    if options.hostname_override not in ("", node.name):
        raise InputError(
            f"hostname-override: the node is called {node.name}",
            node.places.get("hostname-override", node.place),
        )
    place = node.places.get("node-labels", node.place)
    foreign = [key for key in options.node_labels if not agent_may_set(key, names)]
    if foreign:
        stored = f"allowed are those of {names.node_agent}.{names.domain} and node.{names.domain}, and well-known ones"
        raise InputError(
            f"unknown {names.domain!r} labels specified with --node-labels: {foreign}", place, stored
        )
    problems = labels(options.node_labels, "node-labels")
    if problems:
        raise InputError(f"invalid node labels: {problems[0].message}", place)
    _check_taints(node, options)
    _check_allocatable(node, options, names)
    _check_kernel(node, options)
    if (result := problem_of(options, machine_capacity(node), node.topology)) is not None:
        raise InputError(f"{result[0]}: {result[1]}", node.places.get(result[0], node.place))
    return replace(options, certified=raw_option(flags, "rotate-certificates") is not None)


def _check_kernel(node: NodePlan, options: NodeAgentOptions) -> None:
    """Reject a machine with which the agent would not start, because of its swap or its kernel.

    Mirrors pkg/kubelet/cm/container_manager_linux.go: NewContainerManager, setupKernelTunables.
    """
    if node.swap_bytes and options.fail_swap_on:
        table = f"[{SWAPS_HEAD} {swap_row(node.swap_bytes)}]".replace("\t", " ")
        raise InputError(
            "running with swap on is not supported, please disable swap! or set --fail-swap-on flag to false. "
            f"/proc/swaps contained: {table}",
            node.places.get("fail-swap-on", node.place),
        )
    for name, target in KERNEL_DEFAULTS.items() if options.protect_kernel_defaults else ():
        if (actual := node.sysctls.get(name, target)) != target:
            flag = name.replace(".", "/", 1)
            raise InputError(
                f"invalid kernel flag: {flag}, expected value: {target}, actual value: {actual}",
                node.places.get("protect-kernel-defaults", node.place),
            )


def machine_capacity(node: NodePlan) -> dict[str, str]:
    """The resources of a plan's machine; the default disk, if the plan names none."""
    return {"ephemeral-storage": "100Gi", **node.capacity}


def _check_taints(node: NodePlan, options: NodeAgentOptions) -> None:
    """Reject taints that the API would refuse at registration for ever: the node would not appear."""
    field = "register-with-taints"
    problems = taint_errors([*node.taints, *options.register_with_taints], field)
    if problems:
        raise InputError(f"invalid taint: {problems[0].message}", node.places.get(field, node.place))


def _check_allocatable(node: NodePlan, options: NodeAgentOptions, names: Names) -> None:
    """Reject reservations above the machine's capacity: an agent with them exits at its start.

    Mirrors pkg/kubelet/cm/node_container_manager_linux.go: validateNodeAllocatable (v1.25).
    """
    flags = (f"{names.short}-reserved", "system-reserved", "eviction-hard")
    place = next((node.places[flag] for flag in flags if flag in node.places), node.place)
    cpus = quantity_nano(machine_capacity(node).get("cpu", "0")) // NANO
    if options.reserved_cpus and options.reserved_cpus[-1] >= cpus:
        raise InputError(
            f"reserved-cpus: {options.reserved_cpus[-1]} is not a subset of online-cpus: 0-{cpus - 1}",
            node.places.get("reserved-cpus", node.place),
        )
    for resource, text in machine_capacity(node).items():
        current = reserved_nano(resource, text, options)
        left = quantity_nano(text) - current
        if left < 0:
            taken, missing = (format_quantity_nano(n, quantity_style(text)) for n in (current, left))
            raise InputError(
                "invalid Node Allocatable configuration. "
                f'Resource "{resource}" has an allocatable of {taken}, capacity of {missing}',
                place,
                f"reserve less by {', '.join(flags)}",
            )


def _policies(file: OptionFile, names: Names) -> tuple[Policy, ...]:
    """The policies of the mode ABAC.  Raises InputError."""

    def read(text: str) -> tuple[Policy, ...]:
        try:
            return tuple(read_policies(names, text))
        except PolicyError as error:
            raise InputError(str(error), f"{file.path}:{error.line}") from None

    return file.text(read) if file.path else ()


def _authorization_webhook(flags: ApiServerFlags) -> WebhookSettings | None:
    if not flags.authorization_webhook_file:
        return None
    return WebhookSettings(
        flags.authorization_webhook_file,
        flags.authorization_webhook_version,
        flags.authorized_ttl_us,
        flags.unauthorized_ttl_us,
    )


def read_receivers(options: ClusterOptions, files: OptionFiles) -> dict[str, Receiver]:
    """The services outside that options name, by the option.  Raises InputError.

    files: of the API servers
    """
    server = options.api_server
    paths = {IMAGE_POLICY: server.admission.image_policy.kubeconfig}
    if server.authorization_webhook is not None:
        paths[AUTHORIZATION] = server.authorization_webhook.kubeconfig
    if server.audit is not None and server.audit.webhook.batching.mode != BATCH:
        paths[AUDIT_WEBHOOK] = server.audit.webhook.config
    entry = {name: files.of(name, path) for name, path in paths.items() if path}
    if not entry:
        return {}
    from sim.app.receivers import read_receiver  # which needs sockets

    return {name: read_receiver(file) for name, file in entry.items()}


def api_server_options(
    flags: ApiServerFlags,
    files: OptionFiles = OptionFiles(),
    replicas: int = 1,
    names: Names = NAMES["orch"],
) -> ApiServerOptions:
    """The options of a replica.  Raises InputError for admission plugins that there are not.

    files: that the flags name, and the places of these
    """
    configuration = Configuration()
    if flags.admission_configuration:
        try:
            configuration = read_configuration(flags.admission_configuration, names)
        except ValueError as error:
            option = "admission-control-config-file"
            raise InputError(f"option {option}: {error}", files.place_of(option)) from None
    check_plugins(flags.enabled_admission, flags.disabled_admission, configuration, files.place_of)

    def limit(number: int) -> int | None:
        return None if flags.fair or not number else number

    reads, writes = flags.max_requests_inflight, flags.max_mutating_requests_inflight
    return ApiServerOptions(
        **{field: getattr(flags, field) for field in options_of(ReplicaFlags)},
        seats=reads + writes if flags.fair else 0,
        max_requests_inflight=limit(reads),
        max_mutating_requests_inflight=limit(writes),
        admission=configuration,
        replicas=replicas,
        checks_fields=enabled(flags.feature_gates, "ServerSideFieldValidation"),
        gates=flags.changed_gates,
        cached=frozenset(name for name, size in flags.watch_cache_sizes.items() if size),
        uncached=frozenset(name for name, size in flags.watch_cache_sizes.items() if not size),
        authorization_modes=flags.authorization_modes,
        policies=_policies(files.of(POLICY_FILE, flags.authorization_policy_file), names),
        authorization_webhook=_authorization_webhook(flags),
        tolerations=Defaults(flags.not_ready_toleration_s, flags.unreachable_toleration_s),
    )
