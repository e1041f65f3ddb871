"""The pages /metrics, /metrics/cadvisor, /metrics/resource and /metrics/probes of an agent.

Turns figures into families in Prometheus' text format; `families.txt` holds their names, types,
labels and texts.

Mirrors  kubernetes v1.25 pkg/kubelet/metrics/metrics.go, metrics/collectors/{resource_metrics,
         volume_stats}.go, server/metrics/metrics.go; google/cadvisor metrics/prometheus.go and
         prometheus_machine.go; component-base metrics (help texts with their stability).
Differs  families of the Go runtime, of clients and of disk operations are missing, and so are the
         counts of evictions; reads of the runtime are counted with the relists alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from actors.node.agent import NodeAgent
from actors.node.durations import CGROUPS, INTERVALS, OPERATIONS, RELISTS, Key, bounds_of
from actors.node.heartbeat.node_status import node_info
from actors.node.programs.traffic import Traffic
from actors.node.runtime.forecast import capacity
from actors.node.server.exchange import AgentResponse
from actors.node.server.pages.figures import ContainerFigures, Figures, PodFigures, by_name, spec_of
from actors.node.server.pages.summary import INTERFACE
from sim.api.go.printing import go_float
from sim.kernel.meters import Histogram
from sim.units import MINUTE, SECOND, quantity_milli

MEDIA = "text/plain; version=0.0.4; charset=utf-8"
Labels = tuple[str, ...]


class Row(NamedTuple):
    """One sample.  at_us: the time that it carries, of the wall clock; 0 for none"""

    family: str
    value: float
    labels: Labels = ()
    at_us: int = 0


class Measured(NamedTuple):
    """One series of a histogram.  key: of `actors.node.durations`"""

    family: str
    key: Key
    histogram: Histogram

    @property
    def labels(self) -> Labels:
        """The values of its labels."""
        return self.key[1:]


class _Family(NamedTuple):
    type: str
    labels: Labels
    text: str


@lru_cache(maxsize=1)
def _families() -> Mapping[str, Mapping[str, _Family]]:
    """Page and name -> family."""
    found: dict[str, dict[str, _Family]] = {}
    page = ""
    for line in Path(__file__).with_name("families.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            page = line[1:-1]
        elif line and not line.startswith("#"):
            name, kind, labels, text = line.split(" | ", 3)
            named = () if labels == "-" else tuple(labels.split(","))
            found.setdefault(page, {})[name] = _Family(kind, named, text)
    return found


def exposition(page: str, rows: Iterable[Row | Measured], agent_name: str) -> AgentResponse:
    """A page in Prometheus' text format.  agent_name: the word for the agent in names"""
    of_family: dict[str, list[Row | Measured]] = {}
    for row in rows:
        of_family.setdefault(row.family, []).append(row)
    lines = []
    for name, family in _families()[page].items():
        if name in of_family:
            shown = name.replace("kubelet", agent_name)
            lines += [f"# HELP {shown} {family.text}", f"# TYPE {shown} {family.type}"]
            for row in sorted(of_family[name], key=_order):
                lines += _lines(shown, family.labels, row)
    return AgentResponse(200, "".join(f"{line}\n" for line in lines).encode(), MEDIA)


def _order(row: Row | Measured) -> Labels:
    return row.labels


def _lines(name: str, labels: Labels, row: Row | Measured) -> list[str]:
    if isinstance(row, Row):
        return [_line(name, labels, row)]
    counts, values = row.histogram.counts, row.labels
    shown = [*(go_float(bound) for bound in bounds_of(row.key[0])), "+Inf"]
    buckets = zip(shown, accumulate(counts), strict=True)
    lines = [
        _line(f"{name}_bucket", (*labels, "le"), Row(name, count, (*values, bound)))
        for bound, count in buckets
    ]
    lines.append(_line(f"{name}_sum", labels, Row(name, row.histogram.total, values)))
    return [*lines, _line(f"{name}_count", labels, Row(name, sum(counts), values))]


def _line(name: str, labels: Labels, row: Row) -> str:
    pairs = ",".join(f'{key}="{_quoted(value)}"' for key, value in zip(labels, row.labels, strict=True))
    stamp = f" {row.at_us // 1000}" if row.at_us else ""
    return (
        f"{name}{{{pairs}}} {go_float(row.value)}{stamp}" if pairs else f"{name} {go_float(row.value)}{stamp}"
    )


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


# --- /metrics -------------------------------------------------------------------------------------


def main_metrics(
    agent: NodeAgent, figures: Figures, requests: Mapping[Labels, int], open_: Mapping[Labels, int]
) -> AgentResponse:
    """The page of the agent itself.

    requests, open_: how many there were, and are open, by their labels
    """
    rows: list[Row | Measured] = [
        Row("kubelet_node_name", 1, (agent.spec.name,)),
        Row("kubelet_pleg_discard_events", 0),
        Row("kubelet_started_pods_total", agent.machine.starts[0]),
        Row("kubelet_started_containers_total", agent.machine.starts[0], ("pod_sandbox",)),
        Row("kubelet_started_containers_total", agent.machine.starts[1], ("container",)),
        _start_time(agent),
        Row("process_max_fds", agent.options.max_open_files),
        *(Row("kubelet_http_requests_total", count, labels) for labels, count in requests.items()),
        *(Row("kubelet_http_inflight_requests", count, labels) for labels, count in open_.items()),
        *_volume_rows(figures),
        *_running_rows(agent),
        *_measured_rows(agent),
    ]
    seen_us = agent.ctx.said_us(agent.runtime.relists.seen_us(agent.now_us))
    rows.append(Row("kubelet_pleg_last_seen_seconds", seen_us // SECOND))
    ephemeral = sum(len(one.pod["spec"].get("ephemeralContainers") or ()) for one in agent.workers.values())
    rows.append(Row("kubelet_managed_ephemeral_containers", ephemeral))
    return exposition("main", rows, agent.names.node_agent)


NODE_CGROUPS = 3  # of all pods, and of the two classes below Guaranteed, renewed each minute


def _measured_rows(agent: NodeAgent) -> Iterator[Row | Measured]:
    """The durations of the agent's work, with those that follow from the present time."""
    series = dict(agent.durations.series)

    def add(took_us: int, *key: str, times: int) -> None:
        histogram, bounds = Histogram(len(bounds_of(key[0]))), bounds_of(key[0])
        histogram.add(bounds, took_us / SECOND, times)
        series[key] = histogram.plus(series[key]) if key in series else histogram

    for number, (took_us, interval_us, count) in enumerate(agent.runtime.relists.done(agent.now_us)):
        add(took_us, RELISTS, times=count)
        first = 0 if number else min(1, count)  # has none before it
        add(interval_us, INTERVALS, times=count - first)
        for operation in ("list_podsandbox", "list_containers"):
            add(took_us, OPERATIONS, operation, times=count)
    if agent.options.cgroups_per_qos:
        made = series.get((CGROUPS, "create"))
        renewals = (agent.now_us - agent.began_us) // MINUTE + (0 if made is None else sum(made.counts))
        add(0, CGROUPS, "update", times=NODE_CGROUPS * renewals)
        add(0, CGROUPS, "create", times=NODE_CGROUPS)
    for key, histogram in series.items():
        yield Measured(
            f"kubelet_{key[0]}{'' if key[0] == INTERVALS else '_duration'}_seconds", key, histogram
        )
        if key[0] == OPERATIONS:
            yield Row("kubelet_runtime_operations_total", sum(histogram.counts), key[1:])
    for operation, count in agent.durations.failures.items():
        yield Row("kubelet_runtime_operations_errors_total", count, (operation,))


def _start_time(agent: NodeAgent) -> Row:
    return Row("process_start_time_seconds", agent.ctx.said_us(agent.began_us) / SECOND)


def _running_rows(agent: NodeAgent) -> Iterator[Row]:
    """The sandboxes and containers of the present instant."""
    pods, states = agent.machine.pods.values(), {"exited": 0, "running": 0}
    for pod in pods:
        for one in pod.containers:
            states["running" if one.running(agent.now_us) else "exited"] += 1
    yield Row("kubelet_running_pods", sum(pod.ready for pod in pods))
    yield from (
        Row("kubelet_running_containers", count, (state,)) for state, count in states.items() if count
    )


def _volume_rows(figures: Figures) -> Iterator[Row]:
    """The claims of pods, each once."""
    found: dict[Labels, None] = {}
    for pod in figures.pods():
        namespace = pod.worker.pod["metadata"]["namespace"]
        for one in figures.volumes(pod):
            labels = namespace, one.claim
            if not one.claim or labels in found:
                continue
            found[labels] = None
            disk = one.disk
            for name, value in (
                ("capacity_bytes", disk.capacity),
                ("available_bytes", disk.available),
                ("used_bytes", disk.used),
                ("inodes", disk.inodes),
                ("inodes_free", disk.inodes_free),
                ("inodes_used", disk.inodes_used),
            ):
                yield Row(f"kubelet_volume_stats_{name}", value, labels)


def probe_metrics(agent: NodeAgent) -> AgentResponse:
    """The page of probes."""
    rows = [_start_time(agent)]
    for worker in by_name(agent):
        meta = worker.pod["metadata"]
        for probe in worker.probes:
            for result, count in zip(("successful", "failed"), probe.counted, strict=True):
                labels = probe.container, meta["namespace"], meta["name"], worker.uid, probe.kind, result
                if count and not probe.stopped:
                    rows.append(Row("prober_probe_total", count, labels))
    return exposition("probes", rows, agent.names.node_agent)


# --- /metrics/resource ----------------------------------------------------------------------------


def resource_metrics(agent: NodeAgent, figures: Figures) -> AgentResponse:
    """CPU and memory of the node, its pods and their containers."""
    at_us, pods = agent.ctx.said_us(agent.now_us), figures.pods()
    rows = [
        Row("node_cpu_usage_seconds_total", figures.node_cpu_ns(pods) / 1e9, (), at_us),
        Row("node_memory_working_set_bytes", figures.node_memory()[1], (), at_us),
        Row("scrape_error", 0),
    ]
    for pod in pods:
        meta = pod.worker.pod["metadata"]
        place = meta["namespace"], meta["name"]
        rows.append(Row("pod_cpu_usage_seconds_total", pod.cpu_ns / 1e9, place, at_us))
        rows.append(Row("pod_memory_working_set_bytes", pod.memory, place, at_us))
        for one in pod.containers:
            labels, began_us = (one.container.name, *place), agent.ctx.said_us(one.container.started_us)
            rows.append(Row("container_cpu_usage_seconds_total", one.cpu_ns / 1e9, labels, at_us))
            rows.append(Row("container_memory_working_set_bytes", one.memory, labels, at_us))
            # Quirk: the sample of the start has the time of the start.
            rows.append(Row("container_start_time_seconds", began_us / SECOND, labels, began_us))
    return exposition("resource", rows, agent.names.node_agent)


# --- /metrics/cadvisor ----------------------------------------------------------------------------


def cadvisor_metrics(agent: NodeAgent, figures: Figures) -> AgentResponse:
    """The control groups of the machine, as cadvisor shows them."""
    machine, pods = agent.machine, figures.pods()
    info = node_info(machine)
    ids = info["bootID"], info["machineID"], info["systemUUID"]
    cores = quantity_milli(agent.spec.capacity.get("cpu", "0")) // 1000
    rows = [
        Row("cadvisor_version_info", 1, ("", "", "", info["kernelVersion"], info["osImage"])),
        Row("container_scrape_error", 0),
        Row("machine_scrape_error", 0),
        Row("machine_cpu_cores", cores, ids),
        Row("machine_cpu_physical_cores", cores, ids),
        Row("machine_cpu_sockets", 1, ids),
        Row("machine_memory_bytes", capacity(machine, "memory"), ids),
    ]
    used = figures.node_memory()[1], figures.processes()
    root = ("", "/", "", "", "", "")
    rows += _group(agent, root, figures.node_cpu_ns(pods), *used, agent.began_us)
    rows += _network_rows(agent, ("", "/", "", INTERFACE, "", "", ""), figures.node_network())
    disk = figures.disk("nodefs")
    device = ("", "/dev/sda1", *root[1:])
    rows += _disk_rows(agent, device, disk.used, disk.capacity, disk.inodes_free, disk.inodes)
    for pod in pods:
        rows += _pod_rows(agent, figures, pod)
    return exposition("cadvisor", rows, agent.names.node_agent)


def _pod_rows(agent: NodeAgent, figures: Figures, pod: PodFigures) -> Iterator[Row]:
    meta, status = pod.worker.pod["metadata"], pod.worker.status
    quality = str(status.get("qosClass") or "BestEffort").lower()
    parent = f"/{agent.names.short}pods/" + ("" if quality == "guaranteed" else f"{quality}/")
    ident = f"{parent}pod{meta['uid']}"
    place = meta["namespace"], meta["name"]
    network = figures.network(pod)
    if network is not None:
        yield from _network_rows(agent, ("", ident, "", INTERFACE, "", *place), network)
    began_us = min(one.container.started_us for one in pod.containers)
    yield from _group(agent, ("", ident, "", "", *place), pod.cpu_ns, pod.memory, pod.processes, began_us)
    for one in pod.containers:
        name = one.container.ident.rpartition("/")[2]
        labels = one.container.name, f"{ident}/{name}", one.container.image, name, *place
        began_us = one.container.started_us
        yield from _group(agent, labels, one.cpu_ns, one.memory, one.processes, began_us)
        yield from _limits(agent, labels, pod, one)
        disk = figures.disk("imagefs")
        device = (labels[0], "/dev/sda1", *labels[1:])
        yield from _disk_rows(agent, device, one.layer, disk.capacity, disk.inodes_free, disk.inodes)


def _group(
    agent: NodeAgent, labels: Labels, cpu_ns: int, memory: int, processes: int, began_us: int
) -> Iterator[Row]:
    at_us = agent.ctx.said_us(agent.now_us)
    cpu = labels[0], "total", *labels[1:]
    yield Row("container_cpu_usage_seconds_total", cpu_ns / 1e9, cpu, at_us)
    yield Row("container_last_seen", at_us // SECOND, labels, at_us)
    yield Row("container_memory_cache", 0, labels, at_us)
    yield Row("container_memory_swap", 0, labels, at_us)
    for name in ("rss", "usage_bytes", "working_set_bytes"):
        yield Row(f"container_memory_{name}", memory, labels, at_us)
    yield Row("container_processes", processes, labels, at_us)
    yield Row("container_start_time_seconds", agent.ctx.said_us(began_us) // SECOND, labels, at_us)


def _network_rows(agent: NodeAgent, labels: Labels, traffic: Traffic) -> Iterator[Row]:
    at_us = agent.ctx.said_us(agent.now_us)
    received = traffic.received, traffic.packets_received, 0, 0
    sent = traffic.sent, traffic.packets_sent, 0, 0
    for way, counts in (("receive", received), ("transmit", sent)):
        for what, count in zip(("bytes", "packets", "errors", "packets_dropped"), counts, strict=True):
            yield Row(f"container_network_{way}_{what}_total", count, labels, at_us)


def _limits(agent: NodeAgent, labels: Labels, pod: PodFigures, one: ContainerFigures) -> Iterator[Row]:
    """What the spec of a container gives to its control group (kuberuntime_container_linux.go)."""
    at_us = agent.ctx.said_us(agent.now_us)
    given = spec_of(pod.worker.pod, one.container.name).get("resources") or {}
    limit = quantity_milli((given.get("limits") or {}).get("cpu") or 0)
    wanted = quantity_milli((given.get("requests") or {}).get("cpu") or 0) or limit
    yield Row("container_spec_cpu_shares", max(2, wanted * 1024 // 1000), labels, at_us)
    yield Row("container_spec_cpu_period", agent.options.cpu_cfs_quota_period_us, labels, at_us)
    if quota_us := agent.options.quota_us(limit):
        yield Row("container_spec_cpu_quota", quota_us, labels, at_us)
    yield Row("container_spec_memory_limit_bytes", one.memory_limit, labels, at_us)


def _disk_rows(
    agent: NodeAgent, labels: Labels, used: int, size: int, inodes_free: int, inodes: int
) -> Iterator[Row]:
    at_us = agent.ctx.said_us(agent.now_us)
    yield Row("container_fs_usage_bytes", used, labels, at_us)
    yield Row("container_fs_limit_bytes", size, labels, at_us)
    yield Row("container_fs_inodes_free", inodes_free, labels, at_us)
    yield Row("container_fs_inodes_total", inodes, labels, at_us)
