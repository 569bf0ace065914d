"""What a model replied, and what it means for the passages it was asked about."""
