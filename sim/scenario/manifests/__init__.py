"""Manifests of Kubernetes objects in scenarios: their identifiers, and their errors before a run."""
