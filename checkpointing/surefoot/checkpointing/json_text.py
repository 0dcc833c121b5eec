"""The one door through which values reach `jsonb` columns.

PostgreSQL refuses NUL and lone surrogates in text, JSON knows no NaN. Values are cleaned long
before they come here; this is the last guard (an error text, a foreign channel value).
"""

import json
from typing import Any, cast

from surefoot.graph.plain import clean_text
from surefoot.graph.values import Json


def json_text(value: Json) -> str:
    """Compact JSON that `jsonb` accepts; what it would refuse is made visible or null."""
    try:
        text = _dump(value)
        text.encode()
    except ValueError:  # NaN, infinity, or half of a surrogate pair
        return _dump(_cleaned(value))
    # Perhaps only a backslash and the letters u0000; cleaning leaves those as they are.
    return _dump(_cleaned(value)) if "\\u0000" in text else text


def _dump(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _cleaned(value: Json) -> Json:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        pairs = cast("dict[Any, Any]", value).items()
        return {clean_text(k) if isinstance(k, str) else k: _cleaned(v) for k, v in pairs}
    if isinstance(value, list | tuple):
        return [_cleaned(v) for v in cast("list[Any]", value)]
    return value
