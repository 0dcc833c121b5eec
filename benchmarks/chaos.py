"""Is anything lost, done twice or stuck when worker, server and tools are killed again and again?

Tasks are run by real processes (`surefoot run`, `surefoot resume`), and most of these die: at a
named place in the engine, at any moment, or because the server or a tool's process is killed under
them. Every effect leaves a line in a file outside, which tells the truth. The same chain of effects
is also run by bare LangGraph and by DBOS, each with a node or a step per effect, under the same
kills. The table goes to stderr, the JSON document to stdout.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from benchmarks import report

TESTS = Path(__file__).resolve().parent.parent / "tests"
PLANS = ("chain", "wide", "groups", "agents", "rollbacks", "questions")
PEERS = ("langgraph-sync", "langgraph-default", "dbos")
COLUMNS = ("kills", "lost", "repeated", "stuck", "restart_median_s")
TARGET_S = 1.5


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000, help="of the product, over its plans")
    parser.add_argument("--peer-kills", type=int, help="of each peer; absent: a tenth of --kills")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--only", nargs="+", choices=(*PLANS, *PEERS), default=(*PLANS, *PEERS), metavar="ROW"
    )
    parser.add_argument(
        "--dbos-python", default=sys.executable, help="an interpreter that has dbos, if not ours"
    )
    return parser.parse_args()


def measure(asked: argparse.Namespace, name: str, kills: int) -> dict[str, Any]:
    """One row of the table."""
    from benchmarks.chaos_storm import missing, storm

    kind = "surefoot, " if name in PLANS else ""
    row: dict[str, Any] = {"row": f"{kind}{name}"}
    if name in PEERS and (reason := missing(name, asked.dbos_python)):
        return {**row, "left_out": reason}
    tally = storm(name, kills, seed=asked.seed, dbos_python=asked.dbos_python)
    restarts = tally.restarts_s
    return {
        **row,
        "kills": tally.kills.total(),
        "lost": tally.lost,
        "repeated": tally.repeated,
        "stuck": tally.stuck,
        "restart_median_s": report.middle(restarts) if restarts else None,
        "restarts": len(restarts),
        "tasks": tally.tasks,
        "lives": tally.lives,
        "killed": dict(sorted(tally.kills.items())),
        "notes": tally.notes[:20],
    }


def show(row: dict[str, Any]) -> None:
    """One line of the table."""
    cells = [str(row.get(name, "")) for name in COLUMNS]
    line = [f"{row['row']:<22}", *(f"{cell:>17}" for cell in cells), row.get("left_out", "")]
    print(*line, file=sys.stderr, flush=True)


def main() -> None:
    sys.path.append(str(TESTS))  # the plans, the tools and the world outside are the tests' own
    asked = options()
    plans = [name for name in PLANS if name in asked.only]
    peer_kills = asked.peer_kills or max(1, asked.kills // 10)
    rows: list[dict[str, Any]] = []
    show({"row": "", **{name: name for name in COLUMNS}})
    for name in (*plans, *(name for name in PEERS if name in asked.only)):
        kills = peer_kills if name in PEERS else -(-asked.kills // len(plans))
        rows.append(measure(asked, name, kills))
        show(rows[-1])
    ours = [row for row in rows if row["row"].startswith("surefoot")]
    clean = not any(row["lost"] or row["repeated"] or row["stuck"] for row in ours)
    medians = [row["restart_median_s"] for row in ours if row["restart_median_s"] is not None]
    report.print_document(
        "what is lost, done twice or stuck when worker, server and tools are killed",
        seed=asked.seed,
        kills=sum(row["kills"] for row in ours),
        nothing_lost_repeated_or_stuck=clean,
        at_most_s=TARGET_S,
        met=bool(ours) and clean and all(median <= TARGET_S for median in medians),
        rows=rows,
    )


if __name__ == "__main__":
    main()
