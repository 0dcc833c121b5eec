"""Checks and typed prohibitions in words that a model understands; pure, one sentence each.

The exact rule stands beside the words wherever they are used: words alone decide nothing.
"""

from surefoot.graph.errors import ReferenceMissing
from surefoot.graph.references import Reference, dig, resolve
from surefoot.graph.shapes import is_array
from surefoot.graph.values import Json, JsonObject


def check_in_words(check: JsonObject) -> str:
    """What must hold, as one sentence; a type that is not known is named as it is.

    Args:
        check: JSON-plain, as in the task file.
    """
    say = _SENTENCES.get(str(check.get("type")))
    sentence = say(check) if say else f"The check of type {check.get('type')!r} holds."
    name = check.get("id")
    return f"{name}: {sentence}" if name else sentence


def prohibition_in_words(prohibition: JsonObject, inputs: JsonObject) -> str:
    """What must never happen, as one sentence.

    Args:
        prohibition: a typed one, JSON-plain.
        inputs: the goal's, for `${inputs...}`; what cannot be looked up stays as written.
    """
    if "path" in prohibition:
        path = resolved_text(prohibition["path"], inputs)
        if prohibition.get("deny") == "read":
            return f"Never read {path} or anything below it."
        return f"Never create, change or delete {path} or anything below it."
    if "tool" in prohibition:
        return f"Never use the tool {resolved_text(prohibition['tool'], inputs)}."
    return f"Never contact a host like {resolved_text(prohibition.get('host'), inputs)}."


def resolved_text(value: Json, inputs: JsonObject) -> str:
    """A text with its `${inputs...}` looked up; as written where they cannot be."""

    def lookup(reference: Reference) -> Json:
        return dig({"inputs": inputs}, (reference.head, *reference.path))

    try:
        return str(resolve(value, lookup))
    except ReferenceMissing:
        return str(value)


def _artifact(check: JsonObject) -> str:
    parts = [f"the artifact {check.get('name')} exists"]
    if check.get("min_bytes") is not None:
        parts.append(f"has at least {check['min_bytes']} bytes")
    if check.get("contains") is not None:
        parts.append(f"contains the text {check['contains']!r}")
    if check.get("regex") is not None:
        parts.append(f"matches the regular expression {check['regex']!r}")
    if check.get("json_schema") is not None:
        parts.append("is JSON of the stated schema")
    return _sentence(parts)


def _result(check: JsonObject) -> str:
    what = f"`{check['path']}` of the result" if check.get("path") else "the result"
    parts = [f"{what} is there"]
    if "equals" in check:
        parts.append("equals the stated value")
    if check.get("min_items") is not None:
        parts.append(f"has at least {check['min_items']} items")
    if check.get("json_schema") is not None:
        parts.append("fits the stated schema")
    return _sentence(parts)


def _file(check: JsonObject) -> str:
    if check.get("exists") is False:
        return f"There is no file {check.get('path')}."
    parts = [f"the file {check.get('path')} exists"]
    if check.get("contains") is not None:
        parts.append(f"contains the text {check['contains']!r}")
    return _sentence(parts)


def _command(check: JsonObject) -> str:
    run: Json = check.get("run")
    words = " ".join(str(word) for word in run) if is_array(run) else str(run)
    return f"The command `{words}` ends with exit code 0."


def _python(check: JsonObject) -> str:
    return f"The program check {check.get('call')} finds nothing wrong."


def _judge(check: JsonObject) -> str:
    return f"A judge finds that this holds: {check.get('rubric')}"


def _person(check: JsonObject) -> str:
    return f"A person says yes to: {check.get('question')}"


def _sentence(parts: list[str]) -> str:
    *first, last = parts
    text = f"{', '.join(first)} and {last}" if first else last
    return f"{text[0].upper()}{text[1:]}."


_SENTENCES = {
    "artifact": _artifact,
    "result": _result,
    "file": _file,
    "command": _command,
    "python": _python,
    "judge": _judge,
    "person": _person,
}
