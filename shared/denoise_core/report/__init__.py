"""Everything that becomes HTML."""
