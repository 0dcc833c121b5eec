"""The same rules for contracts in Chinese: parties, dates, law, term, termination, liability."""

import re

from contract_rules.dates import Duration, add_months, find_dates, find_durations
from contract_rules.found import Found
from contract_rules.spans import Quote, Source

_ROLE = (
    r"甲方|乙方|丙方|丁方|出租方|承租方|出租人|承租人|卖方|买方|出卖人|买受人|供方|需方|披露方|接收方"
    r"|委托方|受托方|委托人|受托人|出借人|借款人|发包方|承包方|许可方|被许可方"
)
_PARTY = re.compile(
    rf"(?P<role>{_ROLE})\s?(?:[（(](?P<extra>[^）)\n]{{1,20}})[）)])?\s?[*_]{{0,2}}[:：][*_]{{0,2}}\s?"
    r"(?P<name>(?:[^\n，,。；;（(：:]"
    r"|[（(][^）)\n]{1,12}[）)](?=[^\n，。]{0,20}(?:公司|中心|厂|所|社|院))){2,40})"
)
_SIGNED = re.compile(r"(?:签订|签署|订立|签约|立约)(?:日期|时间)?[^。\n]{0,12}$|(?:于|在)\s?$")
_SIGNED_AFTER = re.compile(r"^\s?(?:签订|签署|订立|在[^。\n]{1,12}(?:签订|签署|订立))")
_STARTS = re.compile(r"(?:自|从)\s?$|生效(?:日期|日)?[:：为是]?\s?$")
_EFFECTIVE_AFTER = re.compile(r"^\s?(?:起)?\s?(?:生效|起(?:计算|算)?)")
_UNTIL = re.compile(r"(?:至|到|截至|止于)\s?$")
_LAW = re.compile(
    r"(?:适用|受|依照|依据|按照|遵循)(?P<place>[^。；;\n，,]{2,24}?)(?:的)?法律(?:法规)?(?P<after>[^。；;\n]{0,12})"
)
_LAW_ABOUT = re.compile(r"合同|协议|效力|解释|争议")
_PLACES = {
    "中华人民共和国": "China",
    "中国": "China",
    "香港": "Hong Kong",
    "澳门": "Macau",
    "台湾": "Taiwan",
}
_TERM = re.compile(
    r"(?:有效期|合同期限|协议期限|服务期限|服务期|租赁期限|租赁期|租期|合作期限|借款期限|履行期限|期限)"
)
_RENEW = re.compile(r"自动(?:续期|续展|续约|延长|顺延|展期|续签)|(?:续期|续签|续约)")
_AHEAD = re.compile(r"提前|期满前|届满前|到期前")
_END = re.compile(r"(?:解除|终止)")
_AT_WILL = re.compile(
    rf"(?:任何一方|任一方|双方均|各方均|一方|{_ROLE})[^。；]{{0,30}}"
    r"(?:提前[^。；]{0,16}通知|随时|无需(?:说明)?理由|无须(?:说明)?理由)"
)
_ANY_SIDE = re.compile(r"任何一方|任一方|双方均|各方均|双方都")
_BECAUSE = re.compile(r"违约|违反|逾期|未(?:能|按|履行)|破产|不可抗力|严重")
_LIABLE = re.compile(r"责任|赔偿|损失")
_CAP = re.compile(
    r"(?:不超过|不得超过|不应超过|最高(?:限额)?(?:为|不超过)|以)(?P<value>[^。；，,\n]{2,40}?)(?:为限|为上限|[。；，,\n]|$)"
)
_INDIRECT = re.compile(r"间接损失|预期利益|利润损失|可得利益|商誉损失")
_EXCLUDED = re.compile(r"不承担|不负|免责|不予赔偿|不包括")
_UNLIMITED = re.compile(
    r"无限(?:连带)?(?:赔偿)?责任|(?:责任|赔偿)[^。；\n]{0,20}(?:不设上限|不受[^。；\n]{0,10}限制|没有上限|无上限)"
)


def read_chinese(source: Source, found: Found) -> None:
    """Fill in everything the rules find in a Chinese contract."""
    _read_parties(source, found)
    _read_dates(source, found)
    _read_law(source, found)
    _read_term(source, found)
    _read_termination(source, found)
    _read_liability(source, found)


def _read_parties(source: Source, found: Found) -> None:
    for match in _PARTY.finditer(source.text, 0, 4_000):
        name = match["name"].strip(" *_　")
        known = any(name == n or match["role"] == r for n, r in found.parties)
        if not name.strip("_＿—") or known:
            continue
        found.parties.append((name, match["role"]))
        start = source.text.rfind("\n", 0, match.start()) + 1
        end = match.end("name")
        found.add(Quote("parties", source.text[start:end], start, end), most=6)


def _read_dates(source: Source, found: Found) -> None:
    text = source.text
    for date in find_dates(text):
        before, after = text[max(0, date.start - 24) : date.start], text[date.end : date.end + 20]
        if found.agreement_date is None and (_SIGNED.search(before) or _SIGNED_AFTER.match(after)):
            found.agreement_date = date.iso
            found.add(source.quote("agreement_date", date.start, date.end))
        elif found.effective_date is None and (
            _STARTS.search(before) or _EFFECTIVE_AFTER.match(after)
        ):
            found.effective_date = date.iso
            found.add(source.quote("effective_date", date.start, date.end))


def _read_law(source: Source, found: Found) -> None:
    for match in _LAW.finditer(source.text):
        first, last = source.sentence(match.start())
        place = next((p for word, p in _PLACES.items() if word in match["place"]), None)
        if place is None or not _LAW_ABOUT.search(source.text[first:last]):
            continue
        special = next(
            (p for word, p in _PLACES.items() if word in match["place"] and p != "China"), place
        )
        found.governing_law = special
        found.add(source.quote("governing_law", match.start(), match.end()))
        return


def _read_term(source: Source, found: Found) -> None:
    for start, end in source.spans:
        sentence = source.text[start:end]
        named = _TERM.search(sentence)
        if named and found.length is None and found.expires is None and "保密" not in sentence:
            _fill_term(source, found, sentence, start + named.start())
        renewed = _RENEW.search(sentence)
        if renewed and found.renewal is None:
            found.renewal = "automatic" if "自动" in renewed.group() else "by agreement"
            found.renewal_notice = _advance(sentence) if found.renewal == "automatic" else None
            found.add(source.quote("renewal", start + renewed.start(), start + renewed.end()))


def _fill_term(source: Source, found: Found, sentence: str, at: int) -> None:
    lengths = [d for d in _lengths(sentence) if d.months]
    ends = [
        d for d in find_dates(sentence) if _UNTIL.search(sentence[max(0, d.start - 4) : d.start])
    ]
    if not lengths and not ends:
        return
    if lengths:
        found.length = str(lengths[0])
    begin = found.effective_date or found.agreement_date
    if ends:
        found.expires = ends[-1].iso
    elif begin and lengths and lengths[0].months:
        found.expires = add_months(begin, lengths[0].months)
    found.add(source.quote("term", at, at + 1))


def _lengths(sentence: str) -> list[Duration]:
    """Durations that are not part of a date (`3月18日`)."""
    dates = find_dates(sentence)
    return [
        d for d, at in find_durations(sentence) if not any(x.start <= at < x.end for x in dates)
    ]


def _advance(sentence: str) -> str | None:
    """The notice of `提前三十日`, `期满前三十日内`; None where nothing is said in advance."""
    ahead = _AHEAD.search(sentence)
    return next((str(d) for d in _lengths(sentence[ahead.end() :])), None) if ahead else None


def _read_termination(source: Source, found: Found) -> None:
    for start, end in source.spans:
        sentence = source.text[start:end]
        hit = _END.search(sentence)
        if hit is None:
            continue
        at = start + hit.start()
        if _BECAUSE.search(sentence):
            if not found.cause:
                found.cause = True
                found.cure_period = next((str(d) for d in _lengths(sentence)), None)
                found.add(source.quote("termination_for_cause", at, at + 1))
        elif _AT_WILL.search(sentence):
            found.one_sided = not _ANY_SIDE.search(sentence) and not found.convenience
            found.convenience = True
            found.convenience_notice = found.convenience_notice or _advance(sentence)
            found.add(source.quote("termination_for_convenience", at, at + 1), most=3)


def _read_liability(source: Source, found: Found) -> None:
    for start, end in source.spans:
        sentence = source.text[start:end]
        liable = _LIABLE.search(sentence)
        if liable is None:
            continue
        at = start + liable.start()
        if _UNLIMITED.search(sentence):
            found.unlimited = True
            found.add(source.quote("unlimited_liability", at, at + 1))
        cap = _CAP.search(sentence, liable.start())
        if cap and found.cap is None:
            found.cap = cap["value"].strip()
            found.add(source.quote("liability_cap", start + cap.start(), start + cap.end()))
        if _INDIRECT.search(sentence) and _EXCLUDED.search(sentence):
            found.excludes_indirect = True
            found.add(source.quote("excluded_losses", at, at + 1))
