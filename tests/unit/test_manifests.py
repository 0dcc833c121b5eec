"""Names of any bytes in a document; entries compared; a part of a listing."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.checkpointing.file_differences import compare
from surefoot.checkpointing.manifests import (
    Entry,
    Listing,
    dump,
    from_text,
    line,
    parse,
    referenced,
    to_text,
)
from surefoot.graph.errors import PermanentError

A, B = "a" * 64, "b" * 64


def file(sha256: str = A, mode: int = 0o644) -> Entry:
    return Entry(kind="file", mode=mode, size=3, sha256=sha256)


def folder(mode: int = 0o755) -> Entry:
    return Entry(kind="dir", mode=mode)


@given(st.binary(min_size=1).filter(lambda name: b"\0" not in name))
def test_a_name_of_any_bytes_comes_back_from_json(name: bytes) -> None:
    text = to_text(os.fsdecode(name))
    assert json.loads(json.dumps(text).encode()) == text
    text.encode()  # no lone surrogate: a database takes it
    assert os.fsencode(from_text(text)) == name


@given(st.text())
def test_a_glob_of_any_text_comes_back(glob: str) -> None:
    assert from_text(to_text(glob)) == glob


def test_different_names_stay_different() -> None:
    assert to_text("\udcff") == r"\xff"
    assert to_text(r"\xff") == r"\\xff"
    assert to_text("übel") == "übel"


def test_a_document_comes_back_whole_and_does_not_depend_on_the_order() -> None:
    entries = {"b": file(), "a\udc80": Entry(kind="symlink", mode=0o777, target="x"), "d": folder()}
    lines = {path: line(path, entry) for path, entry in entries.items()}
    document = dump(lines, ["out/**"])
    assert dump(dict(reversed(lines.items())), ["out/**"]) == document
    listing = parse(json.loads(document))
    assert (dict(listing.entries), listing.writes) == (entries, ("out/**",))
    assert (listing.files, listing.bytes) == (2, 3)


def test_what_a_manifest_needs_is_named_for_those_who_clean_up() -> None:
    sparse = Entry(kind="file", mode=0o644, size=99, blocks=[(0, A), (7, B)])
    entries = {"s": sparse, "f": file(), "d": folder()}
    lines = {path: line(path, entry) for path, entry in entries.items()}
    assert sorted(referenced(json.loads(dump(lines, None)))) == [A, A, B]


@pytest.mark.parametrize("document", [None, [], {}, {"format": 2, "entries": {}}])
def test_something_else_is_no_manifest(document: object) -> None:
    with pytest.raises(PermanentError):
        parse(document)


@pytest.mark.parametrize(
    ("want", "have", "words"),
    [
        ({"a": file()}, {"a": file()}, []),
        ({"a": file()}, {}, ["a is missing"]),
        ({}, {"a": file()}, ["a was not there"]),
        ({"a": file()}, {"a": file(B)}, ["a has changed"]),
        ({"a": file()}, {"a": file(mode=0o755)}, ["a has other permissions"]),
        ({"a": file()}, {"a": folder()}, ["a has changed"]),
        ({"a": file()}, {"a": Entry(kind="file", size=3, unreadable=True)}, ["a cannot be read"]),
        ({"a": Entry(kind="other", mode=0o644)}, {}, []),
        ({"d": Entry(kind="dir", mode=0o700, way=True)}, {}, ["d is missing"]),
        ({}, {"d": Entry(kind="dir", mode=0o700, way=True)}, []),
        (
            {"d": Entry(kind="dir", mode=0, unreadable=True)},
            {"d": Entry(kind="dir", mode=0), "d/x": file()},
            [],
        ),
        (
            {"d": folder(), "d/x": file()},
            {"d": Entry(kind="dir", mode=0, unreadable=True)},
            ["d cannot be read"],
        ),
    ],
)
def test_differences_are_told_in_words(
    want: dict[str, Entry], have: dict[str, Entry], words: list[str]
) -> None:
    assert [str(one) for one in compare(want, have)] == words


def test_what_could_not_be_read_is_compared_by_what_is_known_of_it() -> None:
    closed = Entry(kind="file", mode=0, size=3, mtime_ns=5, unreadable=True)
    same = Entry(kind="file", mode=0, size=3, mtime_ns=5)
    later = Entry(kind="file", mode=0, size=3, mtime_ns=6)
    assert compare({"a": closed}, {"a": same}) == []
    assert [str(one) for one in compare({"a": closed}, {"a": later})] == ["a has changed"]


def test_a_part_of_a_listing_keeps_the_folders_on_its_way() -> None:
    whole = Listing(entries={"out": folder(), "out/a": file(), "in": folder(), "in/b": file()})
    part = whole.below(["out/a"])
    assert dict(part.entries) == {
        "out": Entry(kind="dir", mode=0o755, way=True),
        "out/a": file(),
    }
