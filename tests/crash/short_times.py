"""The real command with short times, and the faults of a worker that stands still.

    python short_times.py WORDS OF THE COMMAND

Environment: LEASE_S=SECONDS the lease, two where nothing is said; PATIENCE_S=SECONDS how long a
lost database is waited for; STILL_AFTER_INTENT=TOOL stops the whole process right after the intent
of a call of that tool was written; HEARTBEAT_ENDS=1 ends the heartbeat's thread after its first
extension.
"""

import functools
import os
import signal
import sys
from typing import Any

from surefoot.checkpointing import ledger, spending
from surefoot.checkpointing.heartbeat import Heartbeat
from surefoot.checkpointing.lease import LeaseKeeper
from surefoot.checkpointing.ledger import PostgresLedger
from surefoot.graph import group_threads, holding, session
from surefoot.graph.ports import EffectCall, EffectRow
from surefoot.service.cli import main

LEASE_S, EXTEND_S = float(os.environ.get("LEASE_S", "2")), 0.3


class StandingLedger(PostgresLedger):
    async def intend(self, call: EffectCall) -> EffectRow | None:
        row = await super().intend(call)
        if call.tool == os.environ.get("STILL_AFTER_INTENT"):
            os.kill(os.getpid(), signal.SIGSTOP)
        return row


def end_after_first(extend: Any) -> Any:
    """The heartbeat's thread ends, as by an error that nobody thought of."""
    done: list[Heartbeat] = []

    def extend_once(heartbeat: Heartbeat) -> None:
        if heartbeat in done:
            raise SystemExit
        done.append(heartbeat)
        extend(heartbeat)

    return extend_once


if __name__ == "__main__":
    patched: Any = holding
    patched.LeaseKeeper = functools.partial(
        LeaseKeeper, lease_seconds=LEASE_S, extend_seconds=EXTEND_S
    )
    patched.PostgresLedger = StandingLedger
    if patience := os.environ.get("PATIENCE_S"):
        waiting: list[tuple[Any, str]] = [
            (session, "GONE_FOR_S"),
            (group_threads, "GONE_FOR_S"),
            (ledger, "PATIENCE_SECONDS"),
            (spending, "PATIENCE_S"),
        ]
        for module, name in waiting:
            setattr(module, name, float(patience))
    if os.environ.get("HEARTBEAT_ENDS"):
        heartbeat: Any = Heartbeat
        heartbeat._extend = end_after_first(heartbeat._extend)
    main(sys.argv[1:])
