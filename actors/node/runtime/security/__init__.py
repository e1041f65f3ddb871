"""The users as which programs of containers run, and the profiles that a node must have for them."""
