"""Access: the command line, the Python client and what shows a task to a person."""
