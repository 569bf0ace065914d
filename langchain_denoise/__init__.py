"""The three methods as LangChain parts."""
