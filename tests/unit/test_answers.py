import json
import time
from typing import Any

import pytest

from surefoot.models.answers import MOST_TRIES, parse_answer, without_thoughts

PLAN: dict[str, Any] = {
    "phases": [{"id": "p"}],
    "subtasks": [{"id": "a", "args": {"text": "} ``` {"}}],
}
TEXT = json.dumps(PLAN)
SHAPE: dict[str, Any] = {
    "type": "object",
    "properties": {"phases": {"type": "array"}, "subtasks": {"type": "array"}},
    "required": ["phases", "subtasks"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        f"\ufeff{TEXT}",
        f"  \n{TEXT}\n\n",
        f"```json\n{TEXT}\n```",
        f"```\n{TEXT}\n```",
        f"Sure, see [1]:\n\n```json\n{TEXT}\n```\nAnything else?",
        f'Draft:\n```json\n{{"tasks": [\n```\nFinal:\n```json\n{TEXT}\n```',
        f'<think>I could say {{"tasks": 1}}</think>\n{TEXT}',
        f"<thinking>{TEXT}</thinking><think>no, better:</think>{TEXT}",
        f'so {{"tasks": 1}} it is</think>{TEXT}',
        f"{TEXT}\n<think>done</think>",
        f"Fill in {{name}}: {TEXT}",
    ],
)
def test_what_stands_around_the_one_value_is_removed_and_nothing_in_it_changed(text: str) -> None:
    assert parse_answer(text, SHAPE) == (PLAN, [])


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "empty"),
        (" \n\t", "empty"),
        ("First read, then write.", "no JSON object"),
        ("<html><body>502</body></html>", "no JSON object"),
        (f"A\n```json\n{TEXT}\n```\nB\n```json\n{{}}\n```", "several"),
        (TEXT + TEXT, "several"),
        (f"<think>hm {TEXT}", "not closed"),
        (TEXT[:-1], "breaks off"),
        (TEXT[: len(TEXT) // 2], "breaks off"),
        (f"```json\n{TEXT[:40]}\n```", "cannot be read"),
        (TEXT.replace("}]", "},]"), "cannot be read"),
        (TEXT.replace('"', "'"), "cannot be read"),
        (TEXT.replace('"', "”"), "cannot be read"),
        (TEXT.replace('"p"', "None"), "cannot be read"),
        (TEXT.replace('"p"', "NaN"), "NaN is not JSON"),
        (TEXT.replace('"p"', "-Infinity"), "-Infinity is not JSON"),
        (TEXT.replace('"p"', "1e999"), "no number"),
        (TEXT.replace('"p"', '"a\nb"'), "control character"),
        (TEXT.replace('"p"', '"say "p""'), "cannot be read"),
        (TEXT[:-1] + ', "phases": []}', "'phases' is given twice"),
        (TEXT.replace('"p"', "9" * 5000), "cannot be read"),
        (json.dumps(TEXT), "breaks off"),
        (f"[{TEXT}]", "is not of type 'object'"),
        (f"[{TEXT},]", "cannot be read"),
        ('{"error": {"message": "overloaded"}}', "'phases' is a required property"),
        (json.dumps({"plan": PLAN}), "'phases' is a required property"),
        ('{"phases": [], "subtasks": {}}', "$.subtasks: {} is not of type 'array'"),
        ('{"a":' * 3000 + "1" + "}" * 3000, "too deeply"),
        ("[" * 3000, "too deeply"),
        ('{"phases": [' + "[" * 300 + "]" * 300 + '], "subtasks": []}', "nested deeper"),
    ],
)
def test_what_is_not_exactly_one_whole_value_is_a_fault_in_words(text: str, fault: str) -> None:
    value, faults = parse_answer(text, SHAPE)
    assert value is None
    assert fault in "; ".join(faults)


def test_nul_and_half_characters_stay_visible() -> None:
    value, faults = parse_answer('{"a": "x\\u0000y\\ud83c", "b": "\\ud83d\\ude00"}')
    assert (value, faults) == ({"a": "x\\u0000y\\ud83c", "b": "😀"}, [])


def test_without_a_schema_any_object_will_do_and_nothing_else() -> None:
    assert parse_answer('{"x": 1}') == ({"x": 1}, [])
    assert parse_answer('[{"x": 1}]')[0] is None


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"a": "x" * 500_000}),
        "[" * 500_000,
        "{" * 500_000,
        '{"a":' * 100_000,
        '"' * 500_000,
        '{"' * 250_000,
        "```{" * 125_000,
        "<think></think>" * 33_000,
        "<think>" * 70_000,
        '{"a":"' + '\\"' * 250_000,
        '{a: "' * 100_000,
        "[ {" * 160_000,
        "{a}" * 160_000,
    ],
    ids=range(13),
)
def test_half_a_million_characters_are_read_in_linear_time(text: str) -> None:
    started = time.process_time()
    parse_answer(text, SHAPE)
    assert time.process_time() - started < 2.0


def test_a_text_full_of_broken_values_is_given_up() -> None:
    text = "{a} " * (MOST_TRIES + 5) + TEXT
    assert "too much broken JSON" in parse_answer(text, SHAPE)[1][0]


def test_thoughts_are_no_part_of_what_was_said() -> None:
    assert without_thoughts("<think>hm</think>\n\nYes\x00.") == "Yes\\u0000."
    assert without_thoughts("<think>still thinking") == ""
    assert without_thoughts("The tag <think> is odd") == "The tag <think> is odd"
