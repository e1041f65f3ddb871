"""Faults of what the cluster uses: the cloud, webhooks, storage drivers, volumes, metrics."""
