"""The authenticators: each turns one kind of credential into a user."""
