"""System 2 Attention."""
