"""What several control loops share."""
