"""Agents, chat and workflows whose answers are checked."""
