"""The example controllers in whole clusters."""
