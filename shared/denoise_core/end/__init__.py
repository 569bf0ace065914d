"""Early Noise Dropping."""
