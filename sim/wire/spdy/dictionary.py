"""The words with which SPDY's compression of headers begins.

Mirrors  SPDY protocol draft 3.1, section 2.6.10.1: the dictionary.
"""

from __future__ import annotations

# Each with its length before it.
_WORDS = """
options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges
age allow authorization cache-control connection content-base content-encoding content-language
content-length content-location content-md5 content-range content-type date etag expect expires from host
if-match if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards
pragma proxy-authenticate proxy-authorization range referer retry-after server te trailer
transfer-encoding upgrade user-agent vary via warning www-authenticate method get status 200_OK version
HTTP/1.1 url public set-cookie keep-alive origin
"""
_CODES = (
    "100 101 201 202 205 206 300 302 303 304 305 306 307 402 405 406 407 408 409 410 411 412 413 414 415 416 417 "
    "502 504 505"
)
_REST = (
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
    "403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
    "text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _counted(word: str) -> bytes:
    data = word.replace("_", " ").encode()
    return len(data).to_bytes(4, "big") + data


DICTIONARY = b"".join(map(_counted, _WORDS.split())) + (_CODES.replace(" ", "") + _REST).encode()
