"""The audit of a cluster outside of the simulation: the policy file, the log and the webhook."""
