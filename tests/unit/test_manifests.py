"""Names of any bytes in a document; entries compared; a part of a listing."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.checkpointing.file_differences import compare
from surefoot.checkpointing.manifest_bases import ManifestBases
from surefoot.checkpointing.manifests import (
    Entry,
    Listing,
    base_of,
    dump,
    dump_delta,
    from_text,
    parse,
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
    document = dump(Listing(entries=entries, writes=("out/**",)))
    backwards = dict(reversed(entries.items()))
    assert dump(Listing(entries=backwards, writes=("out/**",))) == document
    listing = parse(json.loads(document))
    assert (dict(listing.entries), listing.writes) == (entries, ("out/**",))
    assert listing.totals() == (2, 3)


ENTRIES = st.dictionaries(
    st.sampled_from([f"d/{n}" for n in range(12)] + ["\udc80", "back\\slash"]),
    st.sampled_from([file(), file(B), folder()]),
)


@given(ENTRIES, ENTRIES)
def test_what_differs_from_a_whole_one_comes_back_with_it(
    then: dict[str, Entry], now: dict[str, Entry]
) -> None:
    changed = {path: entry for path, entry in now.items() if then.get(path) != entry}
    document = json.loads(dump_delta(A, changed, then.keys() - now.keys(), None))
    assert base_of(document) == A
    assert dict(parse(document, Listing(entries=then)).entries) == now


def test_little_that_has_changed_is_written_alone_and_much_as_a_whole() -> None:
    bases = ManifestBases()
    many = {f"f{n}": file() for n in range(80)}
    document, is_whole = bases.dumped(Listing(entries=many))
    assert is_whole and base_of(json.loads(document)) is None
    bases.remember(A, Listing(entries=many))
    few = many | {f"f{n}": file(B) for n in range(8)}
    del few["f79"]
    document, is_whole = bases.dumped(Listing(entries=few))
    assert not is_whole and base_of(json.loads(document)) == A
    assert len(json.loads(document)["entries"]) == 8 and json.loads(document)["gone"] == ["f79"]
    assert bases.dumped(Listing(entries=few | {"f20": file(B)}))[1]
    assert bases.dumped(Listing(entries=few, writes=("f*",)))[1], "of other globs nothing is known"
    for n in range(8):
        bases.remember(B, Listing(entries=many, writes=(f"{n}",)))
    assert bases.of(None) is None and bases.of(["7"]) == B, "only the newest are remembered"


@pytest.mark.parametrize("document", [None, [], {}, {"format": 2, "entries": {}}, {"format": 3}])
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
