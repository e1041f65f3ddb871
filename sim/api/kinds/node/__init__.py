"""The kinds of the group node.k8s.io."""
