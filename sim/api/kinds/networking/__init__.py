"""The kinds of the group networking.k8s.io."""
