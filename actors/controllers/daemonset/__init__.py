"""The DaemonSet loop."""
