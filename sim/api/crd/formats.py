"""The formats of texts in schemas.

Turns the name of a format and a text into the answer whether the text has that form.

Holds: an unknown format allows every text; each check takes time linear in the text; the hyphens in
the name of a format do not matter.

Mirrors  kube-openapi v1.25 pkg/validation/strfmt/{default,bson,date,duration,format,time}.go,
         govalidator (2019-04) {validator,patterns}.go; apiextensions-apiserver v1.25
         pkg/apiserver/validation/formats.go.
Differs  e-mail addresses have no comments, and the names before them are plain words.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_network
from typing import Any

from sim.api.crd.regexes import compile_pattern
from sim.api.crd.urls import BadUrl, parse_request_uri
from sim.patterns import pattern

_HEX = "[0-9a-fA-F]"
_FOUR, _VARIANT = f"{_HEX}{{4}}", f"[89abAB]{_HEX}{{3}}"
_DATE = pattern(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_CLOCK = pattern(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})")
_TIME = pattern(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?"
    r"(Z|([+-])([0-9]{2}):([0-9]{2}))?"
)
_BYTES = pattern(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_CARD = pattern(
    r"4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|(?:222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)[0-9]{12}"
    r"|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}"
    r"|(?:2131|1800|35[0-9]{3})[0-9]{11}|6[27][0-9]{14}"
)
_BYTE_OF_RGB = r"\s*(?:0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*"
_SSN = pattern(r"[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}")
_MAC_SIZES = (6, 8, 20)
_HOSTNAME = (
    r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]"
    r"{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$"
)
_ATOM = r"(?:[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]|[^\x00-\x7f])+"
_DOTTED = rf"{_ATOM}(?:\.{_ATOM})*"
_QUOTED = r'"(?:[^"\\\x00-\x1f\x7f]|\\.)+"'
_ADDRESS = rf"(?:{_DOTTED}|{_QUOTED})@(?:{_DOTTED})"
_EMAIL = pattern(rf"\s*(?:{_ADDRESS}|(?:{_ATOM}|[ .])*<{_ADDRESS}>)\s*")
_NS = {
    "ns": 1,
    "us": 1000,
    "\u00b5s": 1000,
    "\u03bcs": 1000,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_GO_PART = pattern(r"([0-9]*)(?:\.([0-9]*))?(ns|us|\u00b5s|\u03bcs|ms|s|m|h)")
_WORD_PART = pattern(r"([0-9]+)\s*([A-Za-z\u00b5]+)")
_DAY_NS = 24 * _NS["h"]
# Units in words: all of their names, of which the last may be the beginning of a longer word.
_WORDS: tuple[tuple[int, tuple[str, ...]], ...] = (
    (1, ("ns", "nano")),
    (1000, ("us", "\u00b5s", "micro")),
    (10**6, ("ms", "milli")),
    (10**9, ("s", "sec")),
    (_NS["m"], ("m", "min")),
    (_NS["h"], ("h", "hr", "hour")),
    (_DAY_NS, ("d", "day")),
    (7 * _DAY_NS, ("w", "wk", "week")),
)
_NS_MAX = 1 << 63


def has_form(name: str, text: str) -> bool:
    """Return True if a text has a format, or if the format is unknown."""
    check = _FORMATS.get(name.replace("-", ""))
    return check is None or check(text)


def is_supported(name: str) -> bool:
    """Return True if a format is checked in custom objects; others count as absent."""
    return name.replace("-", "") in _FORMATS


def _is_host(text: str) -> bool:
    if len(text.encode()) > 255 or not compile_pattern(_HOSTNAME).is_found_in(text):
        return False
    return all(len(part.encode()) <= 63 for part in text.split("."))


def _is_address(kind: Callable[[str], Any]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            kind(text)
        except (AddressValueError, ValueError):
            return False
        return True

    return check


_LEADING = pattern(r"(?<![0-9a-fA-F:])0+(?=[0-9])")


def _is_ipv4(text: str) -> bool:
    # Upstream still reads numbers with leading zeros (ParseIPSloppy).
    return _is_address(IPv4Address)(_LEADING.sub("", text))


def _is_ipv6(text: str) -> bool:
    return "%" not in text and _is_address(IPv6Address)(text)


def _is_network(text: str) -> bool:
    address, _, size = text.rpartition("/")
    address = _LEADING.sub("", address)
    return size.isdigit() and _is_address(lambda given: ip_network(given, strict=False))(f"{address}/{size}")


def _is_date(text: str) -> bool:
    found = _DATE.fullmatch(text)
    return found is not None and _day(text) is not None


def _day(text: str) -> int | None:
    """The number of days from 1970 to a date; None if there is no such date."""
    year, month, day = map(int, text.split("-"))
    try:
        # Python has no year 0, which is a leap year as 400 is.
        if year == 0:
            return date(400, month, day).toordinal() - date(1970, 1, 1).toordinal() - 146_097
        return date(year, month, day).toordinal() - date(1970, 1, 1).toordinal()
    except ValueError:
        return None


def _is_time(text: str) -> bool:
    parts = text.lower().split("t")
    if len(parts) < 2 or not _is_date(parts[0]):
        return False
    found = _CLOCK.fullmatch(parts[1])
    return found is not None and found[1] <= "23" and found[2] <= "59" and found[3] <= "59"


def _is_uri(text: str) -> bool:
    try:
        parse_request_uri(text)
    except BadUrl:
        return False
    return True


def _is_mac(text: str) -> bool:
    """As net.ParseMAC: groups of two digits, or of four with dots."""
    if len(text) > 2 and text[2] in ":-":
        groups, width = text.split(text[2]), 2
    else:
        groups, width = text.split("."), 4
    fit = all(len(part) == width and re.fullmatch(f"{_HEX}+", part) for part in groups)
    return fit and len(groups) * width // 2 in _MAC_SIZES


def _is_card(text: str) -> bool:
    digits = "".join(char for char in text if char in "0123456789")
    if _CARD.fullmatch(digits) is None:
        return False
    doubled = [int(char) * 2 for char in digits[-2::-2]]
    total = sum(int(char) for char in digits[::-2]) + sum(n - 9 if n > 9 else n for n in doubled)
    return total % 10 == 0


def _is_isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if re.fullmatch(r"[0-9]{9}[0-9X]", digits) is None:
        return False
    values = [10 if char == "X" else int(char) for char in digits]
    return sum((i + 1) * value for i, value in enumerate(values)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if re.fullmatch("[0-9]{13}", digits) is None:
        return False
    total = sum(int(char) * (3 if i % 2 else 1) for i, char in enumerate(digits[:12]))
    return int(digits[12]) == (10 - total % 10) % 10


def _pattern(text: str) -> Callable[[str], bool]:
    compiled = re.compile(text, re.ASCII)
    return lambda given: compiled.fullmatch(given) is not None


def _uuid(third: str, fourth: str) -> Callable[[str], bool]:
    return _pattern(f"{_HEX}{{8}}-?{_FOUR}-?{third}-?{fourth}-?{_HEX}{{12}}")


_FORMATS: dict[str, Callable[[str], bool]] = {
    "bsonobjectid": _pattern(f"{_HEX}{{24}}"),
    "byte": lambda text: _BYTES.fullmatch(text) is not None,
    "cidr": _is_network,
    "creditcard": _is_card,
    "date": _is_date,
    "datetime": _is_time,
    "duration": lambda text: duration_ns(text) is not None,
    "email": lambda text: _EMAIL.fullmatch(text) is not None,
    "hexcolor": _pattern(f"#?(?:{_HEX}{{3}}|{_HEX}{{6}})"),
    "hostname": _is_host,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "mac": _is_mac,
    "password": lambda _: True,
    "rgbcolor": _pattern(rf"rgb\({_BYTE_OF_RGB},{_BYTE_OF_RGB},{_BYTE_OF_RGB}\)"),
    "ssn": lambda text: len(text) == 11 and _SSN.fullmatch(text) is not None,
    "uri": _is_uri,
    "uuid": _uuid(_FOUR, _FOUR),
    "uuid3": _uuid(f"3{_HEX}{{3}}", _FOUR),
    "uuid4": _uuid(f"4{_HEX}{{3}}", _VARIANT),
    "uuid5": _uuid(f"5{_HEX}{{3}}", _VARIANT),
}


# --- times ----------------------------------------------------------------------------------------


def go_duration_ns(text: str) -> int | None:
    """A duration as Go's time.ParseDuration reads it; None if it is none."""
    unsigned = text[1:] if text[:1] in ("-", "+") else text
    if unsigned == "0":
        return 0
    at = total = 0
    while at < len(unsigned):
        found = _GO_PART.match(unsigned, at)
        if found is None or not (found[1] or found[2]):
            return None
        whole, fraction, unit = found[1] or "0", found[2] or "0", _NS[found[3]]
        total += int(whole) * unit + int(fraction) * unit // 10 ** len(fraction)
        at = found.end()
    if not unsigned or total > _NS_MAX - (text[0] != "-"):
        return None
    return -total if text[0] == "-" else total


def duration_ns(text: str) -> int | None:
    """A duration as schemas know it: as Go reads it, or in words as "2 days"; None if it is none."""
    plain = go_duration_ns(text)
    if plain is not None:
        return plain
    total, known = 0, False
    for number, word in _WORD_PART.findall(text):
        if int(number) >= _NS_MAX:
            return None
        unit = word.lower()
        for ns, names in _WORDS:
            times = sum(unit == name or (name is names[-1] and unit.startswith(name)) for name in names)
            # Quirk: a name that is both equal and the beginning counts once, as in upstream.
            if times:
                known = True
                total += int(number) * ns
    return (total + _NS_MAX) % (2 * _NS_MAX) - _NS_MAX if known else None


def time_ns(text: str) -> tuple[int, int] | None:
    """The time since 1970 and the offset of a time zone in seconds; None if the text is no time."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    day = _day(found[1])
    hours, minutes, seconds = int(found[2]), int(found[3]), int(found[4])
    if day is None or hours > 23 or minutes > 59 or seconds > 59:
        return None
    zone = 0
    if found[7]:
        if int(found[8]) > 24 or int(found[9]) > 60:
            return None
        zone = (int(found[8]) * 3600 + int(found[9]) * 60) * (-1 if found[7] == "-" else 1)
    fraction = int((found[5] or "0")[:9].ljust(9, "0"))
    whole = day * 86_400 + hours * 3600 + minutes * 60 + seconds - zone
    return whole * 10**9 + fraction, zone
