"""The fault-injection matrix: mishap x effect x evidence x world, a strategy in every cell.

The tables are written by hand. R resume at the step, A rerun the subtask (again), B roll back to
the stable point, P ask a person.
"""

from collections.abc import Iterator
from itertools import product
from typing import get_args

import pytest

from surefoot.graph.recovery import (
    Evidence,
    Mishap,
    Strategy,
    World,
    choose,
    in_thread,
    of_thread,
    why_unknown,
)
from surefoot.graph.tool_ports import EffectKind

LETTERS: dict[str, Strategy] = {
    "R": "resume at the step",
    "A": "rerun the subtask",
    "B": "roll back to the stable point",
    "P": "ask a person",
}

EVIDENCE = {
    "no row": Evidence(),
    "failed": Evidence(ledger="failed"),
    "compensated": Evidence(ledger="compensated", way_back="done"),
    "done": Evidence(ledger="done"),
    "done, can be undone": Evidence(ledger="done", way_back="possible"),
    "done, was undone": Evidence(ledger="done", way_back="done"),
    "done, cannot be undone": Evidence(ledger="done", way_back="failed"),
    "rolled back": Evidence(ledger="rolled_back"),
    "unknown": Evidence(ledger="intent"),
    "unknown, probe: yes": Evidence(ledger="intent", probe="happened"),
    "unknown, probe: yes, cannot be undone": Evidence(
        ledger="intent", probe="happened", way_back="failed"
    ),
    "unknown, probe: no": Evidence(ledger="intent", probe="not_happened"),
    "unknown, probe: mute": Evidence(ledger="intent", probe="cannot_tell"),
    "unknown, can be undone": Evidence(ledger="intent", way_back="possible"),
    "unknown, was undone": Evidence(ledger="intent", way_back="done"),
    "unknown, cannot be undone": Evidence(ledger="intent", way_back="failed"),
    "unknown, probe: mute, can be undone": Evidence(
        ledger="intent", probe="cannot_tell", way_back="possible"
    ),
}

OUTSIDE = """
                                       cut,  cut, not   raised,  bad result,
                                       late  resumable  timeout, check      not
                                                        crashed  failed     done
no row                                 A     A          A        A          A
failed                                 A     A          A        A          A
compensated                            A     A          A        A          A
done                                   R     A          A        A          A
done, can be undone                    R     A          A        A          A
done, was undone                       R     A          A        A          A
done, cannot be undone                 R     P          P        P          A
rolled back                            R     A          A        A          A
unknown                                P     P          P        P          A
unknown, probe: yes                    R     A          R        A          A
unknown, probe: yes, cannot be undone  R     P          R        P          A
unknown, probe: no                     A     A          A        A          A
unknown, probe: mute                   P     P          P        P          A
unknown, can be undone                 A     A          A        A          A
unknown, was undone                    A     A          A        A          A
unknown, cannot be undone              P     P          P        P          A
unknown, probe: mute, can be undone    A     A          A        A          A
"""
"""Of what a `reversible` or `irreversible` call leaves, in a world that is as the state says."""

HARMLESS = {"read": "R     A          A        A          A", "idempotent": "A A A A A"}
"""The same columns; no evidence is asked for."""

WORLDS = """
                    R of a read  R    A  P
holds               R            R    A  P
own writes differ   B            R    B  P
differs             P            P    P  P
state lost          B            B    B  B
"""
"""What the consistency report makes of a choice; B is P where there is no snapshot."""

COLUMNS: dict[str, int] = {
    "raised": 2,
    "timeout": 2,
    "crashed": 2,
    "bad_result": 3,
    "check_failed": 3,
    "not_done": 4,
}


def rows(table: str) -> dict[str, list[str]]:
    """The cells of a table by the name of their row."""
    found: dict[str, list[str]] = {}
    for line in table.splitlines():
        words = line.split()
        cells = [word for word in words if word in LETTERS]
        name = line[: line.index(f" {cells[0]}")].strip() if cells else ""
        if name:
            found[name] = cells
    return found


def expected(
    mishap: Mishap, effect: EffectKind, evidence: str, world: World, resumable: bool, stable: bool
) -> Strategy:
    goes_on = mishap in ("cut", "late")
    column = COLUMNS.get(mishap, 0 if resumable else 1)
    cells = HARMLESS[effect].split() if effect in HARMLESS else rows(OUTSIDE)[evidence]
    letter = cells[column]
    at = ["A", "P"].index(letter) + 2 if letter != "R" else (0 if effect == "read" else 1)
    assert goes_on or column > 1
    last = rows(WORLDS.replace("R of a read  R    A  P", ""))[world][at]
    return LETTERS["P" if last == "B" and not stable else last]


Cell = tuple[Mishap, EffectKind, str, World, bool, bool]


def cells() -> Iterator[Cell]:
    yield from product(
        get_args(Mishap),
        get_args(EffectKind),
        EVIDENCE,
        get_args(World),
        (True, False),
        (True, False),
    )


def test_every_cell_of_the_matrix_has_its_strategy_and_a_reason() -> None:
    wrong: list[str] = []
    seen: set[Strategy] = set()
    for mishap, effect, evidence, world, resumable, stable in cells():
        chosen = choose(
            mishap,
            effect=effect,
            evidence=EVIDENCE[evidence],
            world=world,
            resumable=resumable,
            stable=stable,
        )
        seen.add(chosen.strategy)
        wanted = expected(mishap, effect, evidence, world, resumable, stable)
        if chosen.strategy != wanted or not chosen.reason:
            wrong.append(f"{mishap}, {effect}, {evidence}, {world}: {chosen}, not {wanted}")
    assert wrong == []
    assert seen == set(get_args(Strategy))
    assert len(list(cells())) == 8 * 4 * len(EVIDENCE) * 4 * 2 * 2


def test_the_tables_cover_every_evidence_and_every_world() -> None:
    assert rows(OUTSIDE).keys() == EVIDENCE.keys()
    assert rows(WORLDS).keys() >= set(get_args(World))
    assert set(COLUMNS) | {"cut", "late"} == set(get_args(Mishap))


REASONS: list[tuple[Mishap, EffectKind, str, str]] = [
    ("cut", "read", "no row", "the tool only reads"),
    ("cut", "idempotent", "done", "the effect is idempotent"),
    ("cut", "irreversible", "no row", "no effect of it stands in the ledger"),
    ("cut", "irreversible", "done", "the ledger has the result of the call"),
    ("cut", "irreversible", "unknown, probe: yes", "its probe found the effect done"),
    ("cut", "irreversible", "unknown, probe: no", "its probe says that it did not happen"),
    ("cut", "irreversible", "unknown", "it has no probe and no compensation"),
    ("cut", "reversible", "compensated", "it has no probe; its effect was compensated"),
    ("cut", "reversible", "unknown, cannot be undone", "it has no probe; its compensation failed"),
    ("check_failed", "irreversible", "done", "it stands, and answers the next attempt"),
    ("check_failed", "reversible", "done, can be undone", "the failed attempt did is undone"),
    ("not_done", "irreversible", "unknown", "it surely did nothing"),
]


@pytest.mark.parametrize(("mishap", "effect", "evidence", "reason"), REASONS)
def test_the_reason_says_what_decided(
    mishap: Mishap, effect: EffectKind, evidence: str, reason: str
) -> None:
    assert reason in choose(mishap, effect=effect, evidence=EVIDENCE[evidence]).reason


def test_what_probe_and_way_back_said_is_in_the_reason() -> None:
    evidence = Evidence(
        ledger="intent",
        probe="cannot_tell",
        probe_said="error: 503",
        way_back="failed",
        way_back_said="locked",
    )
    why = "its probe could not tell (error: 503); its compensation failed (locked)"
    assert why_unknown(evidence) == why


def test_an_agents_thread_goes_on_only_where_it_may_be_resumed() -> None:
    assert of_thread("cut", resumable=True).strategy == "resume at the step"
    assert of_thread("cut", resumable=False).strategy == "rerun the subtask"
    assert of_thread("check_failed", resumable=True).strategy == "rerun the subtask"


def test_a_call_made_again_in_a_thread_resumes_the_thread() -> None:
    made_again = in_thread(choose("cut", effect="idempotent"))
    assert made_again.strategy == "resume at the step"
    assert "the effect is idempotent" in made_again.reason
    asked = in_thread(choose("cut", effect="irreversible", evidence=EVIDENCE["unknown"]))
    assert asked.strategy == "ask a person"
