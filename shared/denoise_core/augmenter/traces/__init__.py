"""Runs of the loop as plain JSON, in a short form: `record`, for traces and metadata."""
