"""The plugins of the scheduler: which nodes a pod may use, which it prefers, which changes wake it.

One file a plugin, under upstream's name. `registry.DEFAULT_PLUGINS` lists them in the order in
which they filter. `actors.scheduler.search` finds the same nodes with less work; a property test
compares the two.

To add a plugin of your own, derive a class from `SchedulerPlugin` and pass an object of it:

    from actors.scheduler.plugins import ClusterEvent, SchedulerPlugin

    class OneTenantPerNode(SchedulerPlugin):
        name = "OneTenantPerNode"
        events = ClusterEvent.POD_DELETE | ClusterEvent.NODE_ADD

        def filter(self, pod, node):
            namespace = pod["metadata"]["namespace"]
            if any(other["metadata"]["namespace"] != namespace for other in node.pods):
                return self.refuse("node(s) had pods of another tenant")
            return None

    async with Cluster(nodes=10, scheduler_plugins=[OneTenantPerNode()]) as cluster: ...

`filter` returns None or `self.refuse(reason)`. The reason and the number of nodes appear in the
pod's FailedScheduling event. `score` returns a whole number, and `normalize` turns the scores of
all feasible nodes into values from 0 to 100 (by default each one's share of the greatest), which
`weight` multiplies. `events` are the changes after which a pod that the plugin refused is tried
again. `filter` and `score` get the pod and a `NodeView` (the Node object and the pods on it). They
must not change these objects, and their results must depend on nothing else.
`tests/cluster/cli/test_adding_a_scheduler_plugin.py` is a worked example.

A plugin of upstream's default profile is a class derived from `base.DefaultPlugin` in a file of its
own, and a line in `registry.DEFAULT_PLUGINS`. If it reads only the node, or the room on the node,
the search applies it by that line alone.
"""

from actors.scheduler.plugins.added import PluginError
from actors.scheduler.plugins.base import ClusterEvent, NodeView, SchedulerPlugin, Status

__all__ = ["ClusterEvent", "NodeView", "PluginError", "SchedulerPlugin", "Status"]
