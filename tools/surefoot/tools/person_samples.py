"""What a person is shown of work that only a person can judge: results and artifacts, cut.

Of many items a few: which ones is drawn by what the question is about, so that the same question
shows the same, whoever asks it again.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from surefoot.graph.plain import clean_text, compact_json
from surefoot.graph.ports import ArtifactStore
from surefoot.graph.shapes import is_array
from surefoot.graph.values import ArtifactRef, Json
from surefoot.tools.bindings import ValueCache
from surefoot.tools.evidence import Evidence

SHOWN_CHARS = 600
"""Of one result or artifact."""

MOST_SHOWN = 20
"""Pieces of one question, where it asks for no sample."""


@dataclass(frozen=True, slots=True)
class _Piece:
    name: str
    value: Json = None
    refs: tuple[tuple[str, ArtifactRef], ...] = ()
    has_value: bool = False


async def shown_to_people(
    evidence: Evidence,
    values: ValueCache,
    store: ArtifactStore,
    *,
    sample: int | None = None,
    seed: str = "",
) -> list[str]:
    """Texts of what is to be judged: each item of a list apart, then results, then artifacts.

    Args:
        evidence: what the check is about.
        values: reads results.
        store: reads artifacts.
        sample: so many of the pieces, drawn; without it the first ones.
        seed: what they are drawn by.
    """
    pieces = await _pieces(evidence, values)
    most = MOST_SHOWN if sample is None else sample
    kept = _drawn(pieces, sample, seed) if sample is not None else pieces[:most]
    texts = [await _text(piece, store) for piece in kept]
    if len(kept) < len(pieces):
        texts.append(f"({len(kept)} of {len(pieces)} are shown)")
    return texts


def _drawn(pieces: Sequence[_Piece], count: int, seed: str) -> list[_Piece]:
    """A sample in the order of the pieces; the same for the same seed and number of pieces."""
    draw = random.Random(f"{seed} {len(pieces)}")
    chosen = sorted(draw.sample(range(len(pieces)), min(count, len(pieces))))
    return [pieces[n] for n in chosen]


async def _pieces(evidence: Evidence, values: ValueCache) -> list[_Piece]:
    found: list[_Piece] = []
    named = [(name, list(evidence.artifacts(name) or ())) for name in evidence.names]
    if evidence.result is not None:
        value = await values.load(evidence.result)
        if is_array(value):
            alive = [n for n in range(len(value)) if n not in evidence.skipping]
            return [_item(n, k, value[n], named, len(alive)) for k, n in enumerate(alive)]
        found.append(_Piece("result", value, has_value=True))
    for id, stored in evidence.results.items():
        if stored == evidence.result:
            continue
        value = await values.load(stored)
        if is_array(value):
            found += [_Piece(f"{id}/{n}", one, has_value=True) for n, one in enumerate(value)]
        else:
            found.append(_Piece(f"result of {id}", value, has_value=True))
    found += [
        _Piece(
            f"artifact {name}" if len(refs) == 1 else f"artifact {name} {n}", refs=((name, ref),)
        )
        for name, refs in named
        for n, ref in enumerate(refs)
    ]
    return found


def _item(
    n: int, k: int, value: Json, named: Sequence[tuple[str, list[ArtifactRef]]], alive: int
) -> _Piece:
    """One item of a list, with its artifacts where each item has one of the name."""
    refs = tuple((name, refs[k]) for name, refs in named if len(refs) == alive)
    return _Piece(f"item {n}", value, refs, has_value=True)


async def _text(piece: _Piece, store: ArtifactStore) -> str:
    said: list[str] = []
    if piece.has_value:
        said.append(_cut(compact_json(piece.value)))
    for name, ref in piece.refs:
        content = await store.get_bytes(ref["sha256"])
        text = content[: SHOWN_CHARS * 4].decode("utf-8", "replace")
        said.append(f"{name} ({ref['size']} bytes): {_cut(text, whole=len(content))}")
    return f"{piece.name}: {'; '.join(said)}"


def _cut(text: str, *, whole: int = 0) -> str:
    shown = " ".join(clean_text(text).split())
    if len(shown) <= SHOWN_CHARS and whole <= SHOWN_CHARS * 4:
        return shown
    return f"{shown[:SHOWN_CHARS]}..."
