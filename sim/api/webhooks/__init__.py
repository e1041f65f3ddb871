"""Questions to webhooks: decisions that wait for an answer, and the form of the answers."""
