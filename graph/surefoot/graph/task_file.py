"""Reading a task file: YAML or JSON, `--set`, and paths made absolute.

What comes out is a JSON-plain mapping, not yet judged: the validator says what is wrong with it.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from surefoot.graph.errors import UsageError
from surefoot.graph.shapes import is_array, is_object
from surefoot.graph.values import Json, JsonObject
from surefoot.graph.yaml_reader import MAX_DEPTH, YamlFault, read_yaml

MAX_FILE_BYTES = 64 * 1024 * 1024
"""A longer task file is refused; lists of that size belong in an input."""

_PATH_STARTS = ("./", "../", "/")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedFile:
    """A task file as read: `mapping` after `--set`, with absolute paths; `task_dir` its folder."""

    mapping: JsonObject
    task_dir: Path
    path: Path


def read_task_file(
    path: Path, *, sets: Mapping[str, Json] | None = None, cwd: Path | None = None
) -> LoadedFile:
    """Read a task file and apply what the command line set.

    Args:
        path: a `.json` file is read as JSON, any other as YAML.
        sets: see `prepare_mapping`.
        cwd: what relative paths given in `sets` start from; default the current folder.

    Raises:
        UsageError: `unreadable_file` (missing, a folder, no permission, too large, not text) or
            `schema` (syntax, a key twice, no mapping); one line with the place.
    """
    place = path.expanduser().absolute()
    mapping = read_document(place, shown=str(path))
    if not is_object(mapping):
        found = "empty" if mapping is None else f"a {_kind(mapping)}"
        raise UsageError(
            "schema", f"{path}: the file is {found}; a task file is a mapping with `goal:`"
        )
    prepared = prepare_mapping(mapping, task_dir=place.parent, sets=sets, cwd=cwd)
    return LoadedFile(mapping=prepared, task_dir=place.parent, path=place)


def read_document(path: Path, *, shown: str | None = None) -> Json:
    """One JSON or YAML document as a plain value (a task file, a plan file).

    Raises:
        UsageError: as `read_task_file`; `shown` is how the message calls the file.
    """
    name = shown or str(path)
    text = _decoded(_content(path, name), name)
    if path.suffix.lower() == ".json":
        return _read_json(text, name)
    try:
        return read_yaml(text)
    except YamlFault as exc:
        where = "" if exc.line is None else f", line {exc.line}, column {exc.column}"
        raise UsageError("schema", f"{name}{where}: {exc.why}") from exc


def prepare_mapping(
    mapping: JsonObject,
    *,
    task_dir: Path,
    sets: Mapping[str, Json] | None = None,
    cwd: Path | None = None,
) -> JsonObject:
    """A copy of a task mapping with absolute paths and with what the command line set.

    Args:
        mapping: as read; left unchanged.
        task_dir: what relative inputs and tools start from.
        sets: key -> value. A plain key names an input (`goal.inputs.KEY`), a dotted one any place
            (`budget.max_steps`, `plan.subtasks.0.weight`; `inputs.x` is short for an input).
        cwd: what relative inputs among `sets` start from; default the current folder.

    Raises:
        UsageError: `bad_set`: a key leads through something that is not a mapping or list.
    """
    prepared = dict(mapping)
    goal = prepared.get("goal")
    if is_object(goal) and is_object(goal.get("inputs")):
        prepared["goal"] = {**goal, "inputs": absolute_inputs(goal["inputs"], task_dir)}
    tools = prepared.get("tools")
    if is_array(tools):
        prepared["tools"] = [_absolute_tool(tool, task_dir) for tool in tools]
    here = Path.cwd() if cwd is None else cwd
    for key, value in (sets or {}).items():
        path = _set_path(key)
        is_input = path[:2] == ("goal", "inputs")
        prepared = _with_value(
            prepared, path, absolute_inputs(value, here) if is_input else value, key
        )
    return prepared


def parse_set(text: str) -> tuple[str, Json]:
    """`K=V` as given to `--set`: V is JSON where it is JSON, else a text.

    Raises:
        UsageError: `bad_set`: there is no `=`, or nothing before it.
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UsageError("bad_set", f"--set {text}: write it as KEY=VALUE, for example seed=7")
    return key.strip(), parse_value(value)


def parse_value(text: str) -> Json:
    """A command line value: JSON where it is JSON, else the text itself."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return text


def is_path(value: Json) -> bool:
    """Whether an input is a path: a text that starts with `./`, `../` or `/`."""
    return isinstance(value, str) and value.startswith(_PATH_STARTS)


def absolute_inputs(value: Json, base: Path, *, depth: int = 0) -> Json:
    """The value with every path in it made absolute against `base`, in nested values too.

    `depth`: of the value; what is nested deeper than `MAX_DEPTH` is left to the validator's words.
    """
    if isinstance(value, str):
        return os.path.normpath(base / value) if is_path(value) else value
    if depth > MAX_DEPTH:
        return value
    if is_object(value):
        return {k: absolute_inputs(inner, base, depth=depth + 1) for k, inner in value.items()}
    if is_array(value):
        return [absolute_inputs(inner, base, depth=depth + 1) for inner in value]
    return value


def _absolute_tool(tool: Json, base: Path) -> Json:
    if isinstance(tool, str) and (is_path(tool) or tool.endswith(".py")):
        return os.path.normpath(base / tool)
    return tool


def _content(path: Path, name: str) -> bytes:
    try:
        if path.is_dir():
            raise UsageError("unreadable_file", f"{name} is a folder; name the task file in it")
        if path.exists() and not path.is_file():
            raise UsageError("unreadable_file", f"{name} is not a regular file")
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise UsageError("unreadable_file", f"{name}: there is no such file") from None
    except (OSError, ValueError) as exc:
        why = getattr(exc, "strerror", None) or str(exc)
        raise UsageError("unreadable_file", f"{name} cannot be read: {why}") from exc
    if len(content) > MAX_FILE_BYTES:
        limit = MAX_FILE_BYTES // 1024**2
        raise UsageError(
            "unreadable_file", f"{name} is longer than {limit} MiB; put large lists into an input"
        )
    return content


def _decoded(content: bytes, name: str) -> str:
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as exc:
        line = content.count(b"\n", 0, exc.start) + 1
        raise UsageError(
            "unreadable_file", f"{name}, line {line}: not UTF-8 text (byte {exc.start})"
        ) from exc


def _read_json(text: str, name: str) -> Json:
    try:
        return json.loads(text, object_pairs_hook=_unique_pairs, parse_constant=_no_constant)
    except json.JSONDecodeError as exc:
        where = f"line {exc.lineno}, column {exc.colno}"
        raise UsageError("schema", f"{name}, {where}: not JSON: {exc.msg}") from exc
    except RecursionError as exc:
        raise UsageError("schema", f"{name}: nested too deeply") from exc
    except ValueError as exc:
        raise UsageError("schema", f"{name}: {exc}") from exc


def _unique_pairs(pairs: list[tuple[str, Json]]) -> JsonObject:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise ValueError(f"the key {twice!r} is there twice in one mapping")
    return mapping


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")


def _set_path(key: str) -> tuple[str, ...]:
    keys = tuple(key.split("."))
    if len(keys) == 1:
        return ("goal", "inputs", key)
    return ("goal", *keys) if keys[0] == "inputs" else keys


def _with_value(mapping: JsonObject, path: tuple[str, ...], value: Json, key: str) -> JsonObject:
    """A copy of the mapping with one place set; missing mappings on the way are made."""
    copy: JsonObject = dict(mapping)
    place: Json = copy
    for depth, step in enumerate(path):
        last = depth == len(path) - 1
        if is_object(place):
            inner = place.get(step)
            place[step] = value if last else _copied(inner, key, ".".join(path[: depth + 1]))
            place = place[step]
        elif is_array(place) and step.isdecimal() and int(step) < len(place):
            inner = place[int(step)]
            place[int(step)] = value if last else _copied(inner, key, ".".join(path[: depth + 1]))
            place = place[int(step)]
        else:
            raise UsageError("bad_set", f"--set {key}: there is no item {step!r} in that list")
    return copy


def _copied(value: Json, key: str, where: str) -> Json:
    if value is None:
        return {}
    if is_object(value):
        return dict(value)
    if is_array(value):
        return list(value)
    raise UsageError("bad_set", f"--set {key}: {where} is a {_kind(value)}, not a mapping")


def _kind(value: Json) -> str:
    if isinstance(value, str):
        return "text"
    if isinstance(value, bool):
        return "truth value"
    return "list" if is_array(value) else "number"
