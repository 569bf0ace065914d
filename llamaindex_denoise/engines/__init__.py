"""Query engines: the loop, System 2 Attention, and what they share."""
