"""The metrics of a cluster's API servers, controller managers and schedulers."""
