"""The faulty model of `reliability`: the tests' scripted server, its answers wrong now and then.

Run as a process of its own it prints its URL and serves until its standard input ends. It is also
the tools module of the measured tasks, for the function that knows what is true.

Each question stands in the request as `scenario/run/subtask`. The n-th time it is asked, its
answer is wrong with probability e, drawn from (seed, question, n): what runs side by side changes
nothing. All wrong answers to a question are alike, the worst case for a vote.
"""

import json
import random
import re
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent.parent / "tests"
TOOLS: list[object] = []
ANSWERS = "answers.json"

_QUESTION = re.compile(r"Question ([\w.-]+/\d+/(\d+)):")


def name_of(scenario: str, run: int, subtask: int) -> str:
    """What a question goes by in the draws."""
    return f"{scenario}/{run}/{subtask}"


def instructions(scenario: str, run: int, subtask: int) -> str:
    """The instructions of a subtask."""
    name = name_of(scenario, run, subtask)
    return f"Question {name}: what is {subtask} squared, plus 7?"


def truth(subtask: int) -> int:
    """The right answer."""
    return subtask * subtask + 7


def is_wrong(seed: int, question: str, time: int, e: float) -> bool:
    """Whether the answer is wrong that a question gets when it is asked for the n-th time."""
    return random.Random(f"{seed} {question} {time}").random() < e


def all_right(context: dict[str, Any]) -> bool | str:
    """The final acceptance: whether every answer that was kept is true."""
    kept = json.loads(Path(context["artifacts"][ANSWERS]).read_bytes())
    wrong = [n for n, answer in enumerate(kept) if answer != truth(n)]
    return f"{len(wrong)} of {len(kept)} answers are wrong" if wrong else True


class Times:
    """How often each question was asked, by several threads."""

    def __init__(self) -> None:
        self._asked: Counter[str] = Counter()
        self._lock = threading.Lock()

    def next(self, question: str) -> int:
        """The number of this time, from 1."""
        with self._lock:
            self._asked[question] += 1
            return self._asked[question]


def serve(seed: int, e: float) -> None:
    """Print the URL of a server, and serve until standard input ends."""
    sys.path.append(str(TESTS))
    from model_server import ModelServer, Said, Seen, finish, refuse

    times = Times()

    def answer(seen: Seen) -> Said:
        models.seen.clear()  # they are many, and nobody looks at them
        found = _QUESTION.search(str(seen.messages[1]["content"]))
        if found is None:
            return refuse(400, error="there is no question in the request")
        wrong = is_wrong(seed, found[1], times.next(found[1]), e)
        return finish(truth(int(found[2])) + wrong)

    with ModelServer().always("agent", answer) as models:
        print(models.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    serve(int(sys.argv[1]), float(sys.argv[2]))
