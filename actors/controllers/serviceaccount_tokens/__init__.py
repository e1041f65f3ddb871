"""The controller of Secrets that hold tokens of service accounts."""
