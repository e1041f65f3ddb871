"""Options of the node agent that have no effect in this program, with the reasons."""

from __future__ import annotations

from sim.options.refusals import CLIENT, HELP, LOG_OPTIONS, LOGS, PROFILE, SERVER, refusals

WITHOUT_EFFECT = refusals(
    {
        HELP: "help version",
        LOGS: LOG_OPTIONS,
        CLIENT: "{short}config bootstrap-{short}config {short}-api-content-type",
        PROFILE: "contention-profiling",
        "a scenario configures an agent by its flags": "config",
        "the machine and its container runtime are simulated": """
            root-dir hostname-override container-runtime container-runtime-endpoint image-service-endpoint
            pod-infra-container-image runonce exit-on-lock-contention lock-file hairpin-mode
            make-iptables-util-chains iptables-drop-bit iptables-masquerade-bit mounter-path
            experimental-mounter-path protect-kernel-defaults fail-swap-on oom-score-adj
            experimental-kernel-memcg-notification max-open-files
        """,
        "static pods of a node are given as staticPods in a scenario": "pod-manifest-path manifest-url manifest-url-header http-check-frequency",
        "a simulated machine has no control groups": """
            runtime-cgroups cgroup-driver cgroup-root cgroups-per-qos {short}let-cgroups system-cgroups
            cpu-cfs-quota cpu-cfs-quota-period {short}-reserved-cgroup system-reserved-cgroup qos-reserved
        """,
        "a simulated machine has no topology of processors and memory": """
            cpu-manager-policy cpu-manager-policy-options cpu-manager-reconcile-period
            memory-manager-policy topology-manager-policy topology-manager-scope reserved-memory
        """,
        "images are pulled without credentials": """
            image-credential-provider-bin-dir image-credential-provider-config
            cloud-container-registry-config
        """,
        SERVER: """
            cert-dir rotate-certificates rotate-server-certificates streaming-connection-idle-timeout
            address read-only-port healthz-bind-address healthz-port anonymous-auth
            authentication-token-webhook authentication-token-webhook-cache-ttl authorization-mode
            authorization-webhook-cache-authorized-ttl authorization-webhook-cache-unauthorized-ttl
            client-ca-file tls-cert-file tls-private-key-file tls-cipher-suites tls-min-version
        """,
        "a simulated agent has no such part": "cloud-config pod-cidr master-service-namespace seccomp-default",
    }
)
