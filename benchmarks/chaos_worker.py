"""The real command, with places to die in its saver and ledger.

    python -m benchmarks.chaos_worker WORDS OF THE COMMAND

Started by `chaos` alone, which lets it find the tests' `crash`. What it imports, and when, is a
part of what is measured: nothing but what the command needs anyway, and not before it does. The
command starts its tool processes first, so that they import their libraries beside it.
"""

import os
import sys
from typing import Any


def main() -> None:
    from crash import outside

    from surefoot.service.cli import main as command
    from surefoot.service.client import Surefoot

    os.environ[outside.VICTIM] = str(os.getpid())
    opened: Any = Surefoot.engine

    async def engine(self: Surefoot, **given: Any) -> Any:
        engine = await opened(self, **given)
        _let_it_die()
        return engine

    patched: Any = Surefoot
    patched.engine = engine
    command(sys.argv[1:])


def _let_it_die() -> None:
    from crash import worker

    from surefoot.graph import holding

    patched: Any = holding
    patched.TaskSaver, patched.PostgresLedger = worker.DyingSaver, worker.DyingLedger


if __name__ == "__main__":
    main()
