"""The default that works without a model hub: MiniLM-L6 weights from a package, a probe and a stack of ours."""
