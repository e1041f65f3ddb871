"""The controller manager and its control loops."""
