"""Rules that several kinds share."""
