"""What the agent reports about its node: registration, status, lease, runtime, shutdown."""
