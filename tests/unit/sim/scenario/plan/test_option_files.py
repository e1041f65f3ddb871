"""A section `cluster` that needs no folder: options hold the content or the whole path of files."""

from pathlib import Path

from sim.ident import NAMES
from sim.scenario.plan.option_files import complete_cluster
from sim.scenario.read.source import only_document

CLUSTER = """\
spec:
  cluster:
    naming: kubernetes
    nodes:
      - {count: 1, flags: {config: agent.yaml}}
      - {count: 2}
    apiServer: {flags: {audit-policy-file: policy.yaml, audit-log-path: "-"}}
    schedulers: [{name: other, flags: {config: other.yaml}}]
"""
SCHEDULER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
AGENT = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}


def test_files_of_options_are_written_out(tmp_path: Path) -> None:
    for name, content in (("other", SCHEDULER), ("agent", AGENT)):
        text = "".join(f"{key}: {value}\n" for key, value in content.items())
        (tmp_path / f"{name}.yaml").write_text(text)
    (tmp_path / "agent.yaml").write_text((tmp_path / "agent.yaml").read_text() + "tlsCertFile: agent.pem\n")
    whole = complete_cluster(only_document(CLUSTER, "s.yaml"), tmp_path, NAMES["kubernetes"])
    assert whole["apiServer"]["flags"]["audit-policy-file"] == str(tmp_path / "policy.yaml")
    assert whole["schedulers"] == [{"name": "other", "flags": {"config": SCHEDULER}}]
    first, second = whole["nodes"]
    assert first["flags"]["config"]["tlsCertFile"] == str(tmp_path / "agent.pem")
    assert second == {"count": 2}
