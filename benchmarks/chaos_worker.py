"""The real command, with places to die in its saver and ledger.

    python -m benchmarks.chaos_worker WORDS OF THE COMMAND

Started by `chaos` alone, which lets it find the tests' `crash`. What it imports is a part of what
is measured: nothing but what the command needs anyway.
"""

import os
import sys
from typing import Any


def main() -> None:
    from crash import outside, worker

    from surefoot.graph import holding
    from surefoot.service.cli import main as command

    os.environ[outside.VICTIM] = str(os.getpid())
    patched: Any = holding
    patched.TaskSaver, patched.PostgresLedger = worker.DyingSaver, worker.DyingLedger
    command(sys.argv[1:])


if __name__ == "__main__":
    main()
