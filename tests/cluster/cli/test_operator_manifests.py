"""kubectl applies the manifests of an operator: the kinds that installers of real ones bring along."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.cli.test_kubectl import KUBECTL, Kubectl, serve

pytestmark = pytest.mark.slow
BOT = "system:serviceaccount:acme-system:operator"
GROUP = "rbac.authorization.k8s.io"
MANIFESTS = """
apiVersion: v1
kind: Namespace
metadata:
  name: acme-system
  labels: {pod-security.kubernetes.io/enforce: baseline}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.acme.example.com}
spec:
  group: acme.example.com
  scope: Namespaced
  names: {kind: Gadget, plural: gadgets}
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec: {type: object, properties: {size: {type: integer, default: 1}}}
            status: {type: object, x-kubernetes-preserve-unknown-fields: true}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: operator, namespace: acme-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: acme}
aggregationRule:
  clusterRoleSelectors: [{matchLabels: {acme.example.com/part: "yes"}}]
rules: []
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: acme-core, labels: {acme.example.com/part: "yes"}}
rules:
  - {apiGroups: [""], resources: [pods, "pods/log", nodes], verbs: [get, list, watch]}
  - {apiGroups: [acme.example.com], resources: [gadgets, gadgets/status, gadgets/finalizers], verbs: ["*"]}
  - {apiGroups: [policy], resources: [podsecuritypolicies], verbs: [use], resourceNames: [acme]}
  - {nonResourceURLs: [/metrics, "/metrics/*"], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: acme-view
  labels: {rbac.authorization.k8s.io/aggregate-to-view: "true"}
rules:
  - {apiGroups: [acme.example.com], resources: [gadgets], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: acme}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: acme}
subjects: [{kind: ServiceAccount, name: operator, namespace: acme-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: acme-delegates}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:auth-delegator"}
subjects: [{kind: ServiceAccount, name: operator, namespace: acme-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: acme-authentication, namespace: kube-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: extension-apiserver-authentication-reader}
subjects: [{kind: ServiceAccount, name: operator, namespace: acme-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: elects, namespace: acme-system}
rules:
  - {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create]}
  - {apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [acme], verbs: [get, update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: elects, namespace: acme-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: elects}
subjects: [{kind: ServiceAccount, name: operator, namespace: acme-system}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: acme-system}
data: {level: info}
---
apiVersion: v1
kind: Secret
metadata: {name: operator-token, namespace: acme-system, annotations: {kubernetes.io/service-account.name: operator}}
type: kubernetes.io/service-account-token
---
apiVersion: v1
kind: Service
metadata: {name: metrics, namespace: acme-system}
spec: {ports: [{name: https, port: 8443, targetPort: 8443}], selector: {app: acme}}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: acme}
value: 1000
---
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: acme}
spec: {controller: acme.example.com/gadget}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: acme, namespace: acme-system}
spec: {podSelector: {matchLabels: {app: acme}}, policyTypes: [Ingress], ingress: [{}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: acme, namespace: acme-system}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: acme}}}
---
apiVersion: flowcontrol.apiserver.k8s.io/v1beta2
kind: FlowSchema
metadata: {name: acme}
spec:
  priorityLevelConfiguration: {name: workload-high}
  matchingPrecedence: 900
  rules:
    - subjects: [{kind: ServiceAccount, serviceAccount: {name: operator, namespace: acme-system}}]
      resourceRules: [{verbs: ["*"], apiGroups: ["*"], resources: ["*"], namespaces: ["*"], clusterScope: true}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: operator, namespace: acme-system}
spec:
  selector: {matchLabels: {app: acme}}
  template:
    metadata: {labels: {app: acme}}
    spec:
      serviceAccountName: operator
      priorityClassName: acme
      containers:
        - name: operator
          image: acme/operator:1
          ports: [{containerPort: 8443}]
          securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: certificates, namespace: acme-system}
spec:
  template:
    spec:
      serviceAccountName: operator
      restartPolicy: OnFailure
      containers: [{name: make, image: acme/certificates:1}]
"""
COUNT = MANIFESTS.count("\nkind: ")


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """kubectl against two nodes, with a configuration of alice as well."""
    if KUBECTL is None:
        pytest.skip("no kubectl")
    folder = tmp_path_factory.mktemp("operator")
    configs = f"admin={folder / 'config'},alice+dev={folder / 'alice'}"
    server, found = serve(folder, "--nodes", "2", "--pace", "60", "--client-config", configs)
    try:
        found.until(lambda: found("get", "nodes").count(" Ready ") == 2)
        yield found
    finally:
        server.terminate()
        assert server.wait(30) == 0
        assert server.stdout is not None
        server.stdout.close()


def test_manifests_apply_twice_on_either_side_and_the_operator_runs(kubectl: Kubectl) -> None:
    created = kubectl("apply", "-f", "-", text=MANIFESTS)
    assert (created.count(" created"), created.count("\n")) == (COUNT, COUNT)
    again = kubectl("apply", "-f", "-", text=MANIFESTS).splitlines()
    # The controller fills the rules of the aggregated role, which the manifest states as empty; the
    # client replaces the selector of a budget each time.
    changed = {line for line in again if not line.endswith(" unchanged")}
    assert changed <= {f"clusterrole.{GROUP}/acme configured", "poddisruptionbudget.policy/acme configured"}
    sides = kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", text=MANIFESTS)
    assert sides.count(" serverside-applied") == COUNT
    kubectl("rollout", "status", "deployment/operator", "-n", "acme-system", "--timeout=20s")
    kubectl.until(
        lambda: "token" in kubectl.json("get", "secret", "operator-token", "-n", "acme-system")["data"]
    )


def test_account_of_the_operator_may_do_what_its_bindings_say(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", text=MANIFESTS)

    def can(*asked: str) -> bool:
        return kubectl.runs("auth", "can-i", *asked, f"--as={BOT}").stdout.endswith("yes\n")

    kubectl.until(lambda: can("watch", "pods", "-A"))
    for yes in (
        ("get", "pods", "--subresource=log", "-n", "default"),
        ("update", "gadgets.acme.example.com", "--subresource=status"),
        ("create", "tokenreviews.authentication.k8s.io"),
        ("get", "configmaps/extension-apiserver-authentication", "-n", "kube-system"),
        ("update", "leases/acme", "-n", "acme-system"),
        ("get", "/metrics/x"),
    ):
        assert can(*yes), yes
    for no in (
        ("delete", "pods", "-A"),
        ("update", "leases/other", "-n", "acme-system"),
        ("update", "leases/acme", "-n", "default"),
        ("get", "secrets", "-n", "acme-system"),
        ("get", "/logs"),
    ):
        assert not can(*no), no
    token = kubectl("create", "token", "operator", "-n", "acme-system").strip()
    review = f'{{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{{"token":"{token}"}}}}'
    assert f"username: {BOT}" in kubectl("create", "-f", "-", "-o", "yaml", text=review)


def test_restricted_user_sees_what_a_binding_grants(kubectl: Kubectl) -> None:
    alice = Kubectl(kubectl.folder / "alice")
    for earlier in (("rolebinding", "dev"), ("pod", "idle")):  # of an attempt before this one
        kubectl("delete", *earlier, "-n", "default", "--ignore-not-found")
    assert 'User "alice" cannot list' in alice.says(1, "get", "pods", "-n", "default")
    kubectl("create", "rolebinding", "dev", "--clusterrole=view", "--group=dev", "-n", "default")
    assert alice("auth", "can-i", "list", "pods", "-n", "default") == "yes\n"
    assert alice.says(1, "auth", "can-i", "delete", "pods", "-n", "default") == "no\n"
    listed = alice("auth", "can-i", "--list", "-n", "default")
    assert "deployments.apps" in listed and "*.*" not in listed
    kubectl("run", "idle", "--image=idle")
    kubectl.until(lambda: " Running " in alice("get", "pods", "-n", "default"))
    refused = alice.says(1, "create", "role", "r", "--verb=*", "--resource=*", "-n", "default")
    assert 'cannot create resource "roles"' in refused
    assert 'cannot impersonate resource "users"' in alice.says(1, "get", "pods", "--as=admin")
    assert 'cannot create resource "pods/exec"' in alice.says(1, "exec", "idle", "--", "ls")
    assert 'pods "absent" not found' in kubectl.says(1, "exec", "absent", "--", "ls")
    wrong = kubectl.says(1, "exec", "idle", "-c", "other", "--", "ls")
    assert "container other is not valid for pod idle" in wrong
    # kubectl discards output that arrives before its stream is there ("Unknown stream id 1").
    kubectl.until(lambda: "etc\n" in kubectl("exec", "idle", "--", "ls"))
    kubectl("delete", "rolebinding", "dev", "-n", "default")
    assert alice.says(1, "auth", "can-i", "list", "pods", "-n", "default") == "no\n"
