"""LangChain's values as the core's, and back: documents, messages, and where things stand in a chain's state."""
