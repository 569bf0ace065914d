"""Text from a model on this machine."""
