"""Unit tests of what the tests and measurements themselves use."""
