"""kube-proxy of a node, coarsely: what clients there reach follows from the rules written last.

It is off unless the cluster's option `kubeProxy` asks for it.
"""
