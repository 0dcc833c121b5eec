"""What makes two failures the same failure: fingerprints, and what a row of them says.

Numbers, times, ids and quoted paths differ from try to try without meaning anything; they are
left out before the text is hashed. Pure.
"""

import re
from collections.abc import Mapping, Sequence

from surefoot.graph.plain import digest
from surefoot.graph.values import Failure, Json, JsonObject

SAME_IN_A_ROW = 3
"""The same failure so often in a row (so twice after it was criticised) is no accident."""

_PATH = re.compile(r"(?<!\w)(?:[A-Za-z]:)?(?:[/\\][\w.~-]+){2,}")
_HEX = re.compile(r"\b(?=\w*\d)[0-9a-f]{6,}\b")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_SPACE = re.compile(r"\s+")


def normalised(text: str) -> str:
    """A message without what changes by chance: case, paths, hashes, numbers, white space."""
    plain = _HEX.sub("#", _PATH.sub("<path>", text.lower()))
    return _SPACE.sub(" ", _NUMBER.sub("#", plain)).strip()


def fingerprint(failure: Failure, checks: Sequence[Mapping[str, Json]] = ()) -> str:
    """16 hex digits that are equal for failures that mean the same.

    Args:
        failure: kind and message.
        checks: the evidence: each check with `type`, `id`, `ok` and `why`.
    """
    found = [
        [one.get("type"), one.get("id") or one.get("name"), normalised(str(one.get("why") or ""))]
        for one in checks
        if not one.get("ok")
    ]
    return digest([failure["kind"], normalised(failure["message"]), found])[:16]


def repeats(seen: Sequence[str]) -> bool:
    """Whether failures go round in a circle: one in a row too often, or A-B-A-B.

    Args:
        seen: fingerprints on the present rung, oldest first, the newest included.
    """
    last = list(seen[-SAME_IN_A_ROW:])
    if len(last) == SAME_IN_A_ROW and len(set(last)) == 1:
        return True
    four = list(seen[-4:])
    return len(four) == 4 and four[:2] == four[2:] and four[0] != four[1]


def blocker(work: JsonObject, failure: Failure) -> str:
    """What stands in the way, for comparing one replan with the next.

    A model words the same work anew each time: instructions and ids are left out, what the work
    calls, must produce and covers is kept.

    Args:
        work: the subtask that failed, JSON-plain.
        failure: what it failed with for good.
    """
    meaning = [
        work.get("kind"),
        work.get("tool"),
        sorted(work.get("outputs") or ()),
        sorted(work.get("covers") or ()),
    ]
    return digest([meaning, fingerprint(failure)])[:16]
