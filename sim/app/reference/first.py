"""The first scenarios that `orrery init NAME --like KIND` writes: small, with comments, to change."""

from __future__ import annotations

from collections.abc import Mapping

from sim.ident import NAMES

_HEAD = """\
# yaml-language-server: $schema={schema}
# {title} Change the file, and run it again:
#   orrery run {name}.yaml
#   orrery faults          the other things that can go wrong
#   orrery conditions      how to write what must hold
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {{name: {name}, description: {title}}}
spec:
  seed: 1
"""

_WEB = """\
    - apiVersion: apps/v1
      kind: Deployment
      metadata: {name: web}
      spec:
        replicas: 12
        selector: {matchLabels: {app: web}}
        template:
          metadata: {labels: {app: web}}
          spec: {containers: [{name: web, image: "r/web:1"}]}
"""

_NODE_LOSS = f"""\
  duration: 20m
  cluster:
    naming: kubernetes
    nodes: [{{count: 6, zones: [a, b, c], capacity: {{cpu: 8, memory: 32Gi}}}}]
  objects:
{_WEB}\
  timeline:
    - {{at: 2m, name: outage, fail: {{nodes: {{name: node-a-0}}, how: power-loss}}, for: 10m}}
  expect:
    # The control plane notices after the grace period of 40 s, measured from the last heartbeat.
    - {{name: noticed, when: nodes named node-a-0 have Ready=Unknown, within: [30s, 50s], after: outage}}
    # The pods of the node are given up five minutes later, and others take their place.
    - {{name: replaced, when: {{deleted: pods, where: {{node: node-a-0}}}}, within: [5m, 6m], after: outage}}
    # The pods of the other zones are left alone.
    - {{name: others untouched, never: {{deleted: pods, where: {{zone: [b, c]}}}}}}
"""

_ROLLOUT = f"""\
  duration: 10m
  cluster:
    naming: kubernetes
    nodes: [{{count: 4, capacity: {{cpu: 8, memory: 32Gi}}}}]
  objects:
{_WEB}\
  timeline:
    # The second version is the first with another image.
    - at: 2m
      name: update
      apply:
        objects:
          - apiVersion: apps/v1
            kind: Deployment
            metadata: {{name: web}}
            spec:
              replicas: 12
              selector: {{matchLabels: {{app: web}}}}
              template:
                metadata: {{labels: {{app: web}}}}
                spec: {{containers: [{{name: web, image: "r/web:2"}}]}}
  expect:
    # maxUnavailable is 25% by default: at most 3 of 12 pods are away at a time.
    - {{name: enough pods serve, never: deployments named web have status.availableReplicas<=8, after: 1m}}
    - {{name: updated, when: deployments named web have status.updatedReplicas=12 and status.replicas=12 and status.observedGeneration=2, within: [1s, 3m], after: update}}
"""

_WEBHOOK = f"""\
  duration: 15m
  cluster:
    naming: kubernetes
    nodes: [{{count: 1, prefix: policy, labels: {{for: policy}}}}, {{count: 3, labels: {{for: web}}}}]
  objects:
    - apiVersion: v1
      kind: Service
      metadata: {{name: policy}}
      spec: {{selector: {{app: policy}}, ports: [{{port: 443}}]}}
    # The only pod of the webhook is on a node of its own.
    - apiVersion: v1
      kind: Pod
      metadata: {{name: policy, labels: {{app: policy}}}}
      spec: {{nodeSelector: {{for: policy}}, containers: [{{name: policy, image: "r/policy:1"}}]}}
{_WEB}\
  timeline:
    - at: 2m
      name: policy
      apply:
        objects:
          - apiVersion: {NAMES["kubernetes"].api_version("admissionregistration", "v1")}
            kind: ValidatingWebhookConfiguration
            metadata: {{name: policy}}
            webhooks:
              - name: policy.example.com
                clientConfig: {{service: {{name: policy, namespace: default}}}}
                rules: [{{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}}]
                failurePolicy: Fail        # try Ignore
                sideEffects: None
                admissionReviewVersions: [v1]
    - {{at: 3m, name: death, fail: {{nodes: {{name: policy-0}}, how: power-loss}}, for: 5m}}
    - {{at: 4m, name: demand, scale: {{resource: deployments, name: web, replicas: 15}}}}
  expect:
    # No pod can be created while the webhook does not answer.
    - {{name: nothing grows without the webhook, never: {{created: pods}}, after: demand, until: 8m}}
    - {{name: the demand is met after its return, eventually: deployments named web have status.readyReplicas=15, by: 15m}}
"""

_FAILOVER = f"""\
  duration: 10m
  cluster:
    naming: kubernetes
    nodes: [{{count: 5}}]
    controllerManager: {{replicas: 2}}
  objects:
{_WEB}\
  timeline:
    - {{at: 5m, name: killed, crash: {{actor: controller-manager-leader, restartAfter: 60s}}}}
    - {{at: 5m1s, name: scale-up, scale: {{resource: deployments, name: web, replicas: 20}}}}
  expect:
    # The standby waits until the lease of the leader, 15 s, has not been renewed.
    - {{name: nothing is created without a leader, never: {{created: pods}}, after: killed, until: 312s}}
    - {{name: the standby leads, when: "leases named *-controller-manager have spec.leaseTransitions=1", within: [10s, 26s], after: killed}}
    - {{name: the new leader scales up, when: at least 20 pods are Running, within: [10s, 1m], after: scale-up}}
"""

# The title and the body of each kind.
FIRST: Mapping[str, tuple[str, str]] = {
    "node-loss": ("A node loses its power for ten minutes.", _NODE_LOSS),
    "rollout": ("A Deployment is updated to another image.", _ROLLOUT),
    "webhook": ("The pod of a webhook that has to admit every pod is lost.", _WEBHOOK),
    "failover": ("The leading controller manager is killed; its standby takes over.", _FAILOVER),
}


def first_scenario(kind: str, name: str, schema: str) -> str:
    """The text of a first scenario.  kind: a key of `FIRST`; schema: the file of the JSON Schema"""
    title, body = FIRST[kind]
    return _HEAD.format(schema=schema, name=name, title=title) + body
