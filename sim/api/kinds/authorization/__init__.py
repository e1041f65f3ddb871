"""The kinds of the group authorization.k8s.io."""
