"""The nodes of the task graph: each reads a decision, does one thing, returns an update."""
