"""Problems of texts (names, labels, keys, ports, addresses), in upstream's words.

Mirrors  apimachinery v1.25 pkg/util/validation/validation.go, pkg/api/validation/path/name.go.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any

from sim.patterns import pattern
from sim.remembered import cached
from sim.units import parse_unsigned, parse_whole

# Checked texts that recur: keys, namespaces, owners.  Most texts occur once, and a match costs no
# more than a look-up.
_CACHE = 8192

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = _LABEL + r"(\." + _LABEL + ")*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QNAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_QNAME_TEXT = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
_LOWER = "lower case alphanumeric characters"


def _shown_pattern(text: str, pattern: str, *examples: str) -> str:
    """A message with its examples.  Quirk: upstream puts a comma before each "or"."""
    listed = ",  or ".join(f"'{example}'" for example in examples)
    return f"{text} (e.g. {listed}, regex used for validation is '{pattern}')"


_LABEL_ERROR = _shown_pattern(
    f"a lowercase RFC 1123 label must consist of {_LOWER} or '-', and must start and end with an alphanumeric character",
    _LABEL,
    "my-name",
    "123-abc",
)
_SUBDOMAIN_ERROR = _shown_pattern(
    f"a lowercase RFC 1123 subdomain must consist of {_LOWER}, '-' or '.',"
    " and must start and end with an alphanumeric character",
    _SUBDOMAIN,
    "example.com",
)
_LABEL_1035_ERROR = _shown_pattern(
    f"a DNS-1035 label must consist of {_LOWER} or '-', start with an alphabetic character,"
    " and end with an alphanumeric character",
    _LABEL_1035,
    "my-name",
    "abc-123",
)
_QNAME_ERROR = _shown_pattern(_QNAME_TEXT, _QNAME, "MyName", "my.name", "123-abc")
_LABEL_VALUE_ERROR = _shown_pattern(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.',"
    " and must start and end with an alphanumeric character",
    f"({_QNAME})?",
    "MyValue",
    "my_value",
    "12345",
)
_ENV_ERROR = _shown_pattern(
    "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.',"
    " and must not start with a digit",
    "[-._a-zA-Z][-._a-zA-Z0-9]*",
    "my.env-name",
    "MY_ENV.NAME",
    "MyEnvName1",
)
_KEY_ERROR = _shown_pattern(
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    "[-._a-zA-Z0-9]+",
    "key.name",
    "KEY_NAME",
    "key-name",
)
_PERCENT_ERROR = _shown_pattern(
    "a valid percent string must be a numeric string followed by an ending '%'", "[0-9]+%", "1%", "93%"
)

_label_re, _subdomain_re = pattern(_LABEL), pattern(_SUBDOMAIN)
_label_1035_re, _qname_re = pattern(_LABEL_1035), pattern(_QNAME)
_env_re, _key_re = pattern("[-._a-zA-Z][-._a-zA-Z0-9]*"), pattern("[-._a-zA-Z0-9]+")
_percent_re = pattern("[0-9]+%")

Problems = tuple[str, ...]


_WILDCARD = r"\*\." + _SUBDOMAIN
_WILDCARD_ERROR = _shown_pattern(
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain,"
    f" which must consist of {_LOWER}, '-' or '.' and end with an alphanumeric character",
    _WILDCARD,
    "*.example.com",
)
_wildcard_re = pattern(_WILDCARD)


def _too_long(limit: int) -> str:
    return f"must be no more than {limit} characters"


def _matching(text: str, limit: int, pattern: re.Pattern[str], error: str) -> Problems:
    problems = (_too_long(limit),) if len(text) > limit else ()
    return problems if pattern.fullmatch(text) else (*problems, error)


@cached(_CACHE)
def label(text: str) -> Problems:
    """Problems of a DNS label."""
    return _matching(text, 63, _label_re, _LABEL_ERROR)


@cached(_CACHE)
def subdomain(text: str) -> Problems:
    """Problems of a DNS subdomain."""
    return _matching(text, 253, _subdomain_re, _SUBDOMAIN_ERROR)


@cached(_CACHE)
def wildcard_subdomain(text: str) -> Problems:
    """Problems of a DNS subdomain that starts with "*."."""
    return _matching(text, 253, _wildcard_re, _WILDCARD_ERROR)


@cached(_CACHE)
def label_1035(text: str) -> Problems:
    """Problems of a DNS label that starts with a letter."""
    return _matching(text, 63, _label_1035_re, _LABEL_1035_ERROR)


@cached(_CACHE)
def label_value(text: str) -> Problems:
    """Problems of the value of a label."""
    return () if not text else _matching(text, 63, _qname_re, _LABEL_VALUE_ERROR)


@cached(_CACHE)
def qualified_name(text: str) -> Problems:
    """Problems of a name that may have a domain as prefix."""
    parts = text.split("/")
    problems: Problems = ()
    if len(parts) > 2:
        return (
            f"a qualified name {_QNAME_ERROR} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
        )
    if len(parts) == 2:
        if not parts[0]:
            problems = ("prefix part must be non-empty",)
        else:
            problems = tuple(f"prefix part {problem}" for problem in subdomain(parts[0]))
    name = parts[-1]
    if not name:
        problems = (*problems, "name part must be non-empty")
    elif len(name) > 63:
        problems = (*problems, "name part " + _too_long(63))
    if not _qname_re.fullmatch(name):
        problems = (*problems, "name part " + _QNAME_ERROR)
    return problems


def segment(text: str) -> Problems:
    """Problems of a name that must be a path segment."""
    if text in (".", ".."):
        return (f"may not be '{text}'",)
    return tuple(f"may not contain '{c}'" for c in "/%" if c in text)


def _dots(text: str) -> Problems:
    if text == ".":
        return ("must not be '.'",)
    if text == "..":
        return ("must not be '..'",)
    return ("must not start with '..'",) if text.startswith("..") else ()


@cached(_CACHE)
def env_name(text: str) -> Problems:
    """Problems of the name of an environment variable."""
    return (() if _env_re.fullmatch(text) else (_ENV_ERROR,)) + _dots(text)


@cached(_CACHE)
def config_key(text: str) -> Problems:
    """Problems of a key of a ConfigMap or Secret."""
    return _matching(text, 253, _key_re, _KEY_ERROR) + _dots(text)


def percent(text: str) -> Problems:
    """Problems of a percentage."""
    return () if _percent_re.fullmatch(text) else (_PERCENT_ERROR,)


def port_number(value: int) -> Problems:
    """Problems of the number of a port."""
    return () if 1 <= value <= 65535 else ("must be between 1 and 65535, inclusive",)


def port_name(text: str) -> Problems:
    """Problems of the name of a port."""
    problems: Problems = ()
    if len(text) > 15:
        problems += ("must be no more than 15 characters",)
    if not re.fullmatch("[-a-z0-9]+", text):
        problems += ("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",)
    if not re.search("[a-z]", text):
        problems += ("must contain at least one letter (a-z)",)
    if "--" in text:
        problems += ("must not contain consecutive hyphens",)
    if text and (text[0] == "-" or text[-1] == "-"):
        problems += ("must not begin or end with a hyphen",)
    return problems


def user_id(value: int) -> Problems:
    """Problems of a user or group id."""
    return () if 0 <= value <= 2147483647 else ("must be between 0 and 2147483647, inclusive",)


_IP_ERROR = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


def parse_ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An IP address; None if the text is none.  Quirk: leading zeros are accepted, as in Go before
    1.17.
    """
    if re.fullmatch(r"\d+\.\d+\.\d+\.\d+", text):
        text = ".".join(part.lstrip("0") or "0" for part in text.split("."))
    if "%" in text:
        return None
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def is_version_4(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """True for an address of version 4, also in the form of version 6 (Go's To4)."""
    return address.version == 4 or address.ipv4_mapped is not None


_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])"
_plain_ip_re = pattern(rf"{_OCTET}\.{_OCTET}\.{_OCTET}\.{_OCTET}")


def ip(text: str) -> Problems:
    """Problems of an IP address."""
    if _plain_ip_re.fullmatch(text):  # the fast case: each pod has an address
        return ()
    return () if parse_ip(text) is not None else (_IP_ERROR,)


@cached(_CACHE)
def non_special_ip(text: str) -> Problems:
    """Problems of an IP address that must not be a special one (loopback, link-local,
    multicast).
    """
    address = parse_ip(text)
    if address is None:
        return ("must be a valid IP address",)
    problems: Problems = ()
    if address.is_unspecified:
        problems += (f"may not be unspecified ({text})",)
    if address.is_loopback:
        problems += ("may not be in the loopback range (127.0.0.0/8, ::1/128)",)
    if address.is_link_local:
        problems += ("may not be in the link-local range (169.254.0.0/16, fe80::/10)",)
    if address.is_multicast and _link_local_multicast(address):
        problems += ("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",)
    return problems


def _link_local_multicast(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    if isinstance(address, ipaddress.IPv4Address):
        return address in ipaddress.ip_network("224.0.0.0/24")
    return address.packed[1] & 0x0F == 2


def is_cidr(text: str) -> bool:
    """True if the text is an IP network."""
    address, slash, bits = text.partition("/")
    parsed = parse_ip(address)
    length = parse_unsigned(bits)
    return bool(slash) and parsed is not None and length is not None and length <= parsed.max_prefixlen


def percent_of(value: Any) -> int | None:
    """The number of a well-formed percentage; None for anything else, or if it has too many
    digits.
    """
    return parse_whole(value[:-1]) if isinstance(value, str) and _percent_re.fullmatch(value) else None


def relative_path(text: str) -> Problems:
    """Problems of a path that must stay below its root."""
    problems: Problems = ("must be a relative path",) if text.startswith("/") else ()
    return (*problems, "must not contain '..'") if ".." in text.split("/") else problems


def reserved_relative_path(text: str) -> Problems:
    """Problems of a path that must stay below its root and outside of reserved names."""
    problems = relative_path(text)
    if text.startswith("..") and not text.startswith("../"):
        problems += ("must not start with '..'",)
    return problems
