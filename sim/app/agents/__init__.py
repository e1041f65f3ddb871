"""What API servers and clients outside reach of node agents: logs, requests, streams."""
