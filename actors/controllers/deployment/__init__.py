"""The Deployment loop."""
