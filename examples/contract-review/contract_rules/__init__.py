"""Rules that read contracts: no model, no network, only the text.

`review_text` is the way in. It takes the text exactly as it was read and answers with a
finding, JSON-plain, in which every quote is `text[start:end]` of that text.
"""

from contract_rules.review import review_text

__all__ = ["review_text"]
