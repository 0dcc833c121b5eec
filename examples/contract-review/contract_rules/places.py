"""Names of jurisdictions, so that a governing law is named the same way in every finding."""

import re

_STATES = """
Alabama Alaska Arizona Arkansas California Colorado Connecticut Delaware Florida Georgia Hawaii
Idaho Illinois Indiana Iowa Kansas Kentucky Louisiana Maine Maryland Massachusetts Michigan
Minnesota Mississippi Missouri Montana Nebraska Nevada New_Hampshire New_Jersey New_Mexico
New_York North_Carolina North_Dakota Ohio Oklahoma Oregon Pennsylvania Rhode_Island
South_Carolina South_Dakota Tennessee Texas Utah Vermont Virginia Washington West_Virginia
Wisconsin Wyoming District_of_Columbia Puerto_Rico
"""
_PROVINCES = """
Alberta British_Columbia Manitoba New_Brunswick Newfoundland_and_Labrador Nova_Scotia Ontario
Prince_Edward_Island Quebec Saskatchewan New_South_Wales Queensland Victoria Western_Australia
South_Australia Tasmania
"""
_COUNTRIES = """
England_and_Wales England Wales Scotland Northern_Ireland United_Kingdom Ireland Germany France
Spain Portugal Italy Austria Switzerland Belgium Netherlands Luxembourg Denmark Sweden Norway
Finland Iceland Poland Czech_Republic Slovakia Hungary Romania Bulgaria Greece Turkey Cyprus
Malta Estonia Latvia Lithuania Ukraine Russia Israel United_Arab_Emirates Saudi_Arabia Qatar
Egypt South_Africa Nigeria Kenya India Pakistan Bangladesh Sri_Lanka Singapore Malaysia
Thailand Vietnam Indonesia Philippines Hong_Kong Macau Taiwan China Japan Korea Australia
New_Zealand Canada Mexico Brazil Argentina Chile Colombia Peru Panama Bermuda Cayman_Islands
British_Virgin_Islands Bahamas Barbados Jersey Guernsey Isle_of_Man Liechtenstein Monaco
Vanuatu United_States
"""


def _names(block: str) -> list[str]:
    return [name.replace("_", " ") for name in block.split()]


PLACES = [*_names(_STATES), *_names(_PROVINCES), *_names(_COUNTRIES)]
_CANON = {name.lower(): name for name in PLACES} | {
    "québec": "Quebec",
    "people's republic of china": "China",
}
_ADJECTIVES = {
    "english": "England and Wales",
    "scots": "Scotland",
    "scottish": "Scotland",
    "irish": "Ireland",
    "german": "Germany",
    "french": "France",
    "dutch": "Netherlands",
    "swiss": "Switzerland",
    "italian": "Italy",
    "spanish": "Spain",
    "japanese": "Japan",
    "chinese": "China",
}
_ANY = "|".join(re.escape(n).replace(r"\ ", r"\s+") for n in sorted(_CANON, key=len, reverse=True))
PLACE = re.compile(rf"\b(?:{_ANY})\b", re.I)
NATIONAL_LAW = re.compile(
    rf"\b({'|'.join(_ADJECTIVES)}|{_ANY})\s+(?:substantive\s+|domestic\s+)?laws?\b", re.I
)
_UNLISTED = re.compile(
    r"\s*(?:the\s+)?(?:(?:State|Republic|Kingdom|Province)\s+of\s+)?((?:[A-Z][\w'-]{1,30}\s?){1,3})"
)


def places_in(text: str) -> list[str]:
    """The jurisdictions named in a text, in order. A wider one follows a narrower one."""
    found = [_canonical(match.group()) for match in PLACE.finditer(text)]
    narrow = [name for name in found if name != "United States"]
    return narrow + [name for name in found if name == "United States"]


def national_law(text: str) -> str | None:
    """The place of `English law`, `New York law`; None where nothing of the kind is said."""
    match = NATIONAL_LAW.search(text)
    if match is None:
        return None
    word = match.group(1).lower()
    return _ADJECTIVES.get(word) or _canonical(word)


def unlisted_place(text: str) -> str | None:
    """A capitalised name at the beginning of the text: a place that is not in our lists."""
    match = _UNLISTED.match(text)
    return match.group(1).strip() if match else None


def _canonical(text: str) -> str:
    return _CANON[" ".join(text.lower().split())]
