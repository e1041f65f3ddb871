"""The controllers that keep claims and volumes while they are in use."""
