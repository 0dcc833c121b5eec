"""Storage: database, saver, lease, ledger, artifacts, and the tables readers look at."""
