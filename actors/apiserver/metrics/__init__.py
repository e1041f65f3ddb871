"""Metrics of the parts of an API server: admission, flows, queues, and calls of the storage."""
