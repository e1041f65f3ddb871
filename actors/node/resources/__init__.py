"""Which processors, memory and devices of the machine the containers of a pod get: the managers of
the node agent that decide about them at admission.

Mirrors  pkg/kubelet/cm: cpumanager, memorymanager, devicemanager, topologymanager (v1.25).
"""
