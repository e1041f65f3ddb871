"""The fast paths of the API server: requests served with less work and equal results."""
