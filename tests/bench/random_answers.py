"""Random answers of servers outside: heads, chunks, redirects, encodings, JSON and YAML."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from functools import cache
from random import Random
from typing import Any

import yaml

from tests.bench.wire_fuzz import mutated
from tests.cluster.cli.test_api_services import GROUP

WRONG: list[Any] = [None, True, 5, -1.5, 10**25, "", "x", "\ud83d", [], [5], {}, {"a": {}}]
LOCATIONS = [
    "https://[x/",
    "//[",
    "//\xff",
    "https://h:99999",
    "http://h:x",
    "/",
    "?",
    "..",
    "ftp://h",
    "https://\xe2\x84\x80/",
]
CHUNKS = 3 << 20  # bytes of one body in chunks, with their extensions
VALID = '{"apiVersion": "v1", "kind": "Status"}'


def spoiled(random: Random, value: Any) -> Any:
    """A JSON value with one part of another type."""
    if isinstance(value, dict) and value and random.random() < 0.85:
        key = random.choice(list(value))
        return {**value, key: spoiled(random, value[key])}
    if isinstance(value, list) and value and random.random() < 0.7:
        return [spoiled(random, value[0]), *value[1:]]
    return random.choice(WRONG)


def good(asked: Any) -> Any:
    """An answer that a client of any kind accepts."""
    if not isinstance(asked, dict):
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{GROUP}/v1", "resources": []}
    head = {key: asked.get(key) for key in ("apiVersion", "kind")}
    request = asked.get("request") or {}
    response: dict[str, Any] = {
        "uid": request.get("uid"),
        "allowed": True,
        "warnings": ["w"],
        "auditAnnotations": {"a": "b"},
    }
    if asked.get("kind") == "ConversionReview":
        objects = [{**each, "apiVersion": request["desiredAPIVersion"]} for each in request["objects"]]
        response = {"uid": request["uid"], "convertedObjects": objects, "result": {"status": "Success"}}
    elif asked.get("kind") == "TokenReview":
        user = {"username": "carl", "uid": "1", "groups": ["a"], "extra": {"a": ["b"]}}
        return {**head, "status": {"authenticated": True, "user": user, "audiences": []}}
    elif asked.get("kind") == "SubjectAccessReview":
        return {**head, "status": {"allowed": True, "denied": False, "reason": "r"}}
    elif "webhook" not in str(request.get("operation")).lower() and request.get("name") == "mutate":
        patch = base64.b64encode(b'[{"op": "add", "path": "/data", "value": {"k": "v"}}]').decode()
        response |= {"patch": patch, "patchType": "JSONPatch"}
    return {**head, "response": response}


def body_of(random: Random, asked: Any) -> bytes:
    """A body: a valid answer, one of wrong types, or nothing of the kind."""
    value = good(asked)
    match random.randrange(9):
        case 0 | 1:
            return json.dumps(value).encode()
        case 2 | 3 | 4:
            return json.dumps(spoiled(random, value)).encode()
        case 5:
            return mutated(random, json.dumps(value).encode(), [VALID.encode()])
        case 6:
            opening = random.choice([b"[", b'{"a":', b"{a: ", b"- ", b"? ", b"[a,", b'["', b"{\n"])
            return opening * (random.choices([100, 20_000, 1_500_000], [6, 3, 1])[0] // len(opening))
        case 7:
            return random.choice(
                [
                    b"&a [*a]",
                    b"a: &a [x, x]\nb: [*a, *a]\n" * 99,
                    b"!!python/object:os.system x",
                    b"\xff\xfe",
                    b"%YAML 9.9\n--- x",
                    b"a: b: c",
                ]
            )
        case _:
            return yaml.safe_dump(spoiled(random, value)).encode()


@cache
def bomb() -> bytes:
    """Some 300 KiB that inflate to 64 MiB."""
    return gzip.compress(bytes(64 << 20), 1)


@cache
def bomb_in_bomb() -> bytes:
    """Less than a KiB that inflates to the other."""
    return gzip.compress(bomb())


def encoded(random: Random, body: bytes) -> tuple[bytes, bytes]:
    """A body in an encoding, and the headers that name it."""
    match random.randrange(12):
        case 0:
            return gzip.compress(body, 1), b"Content-Encoding: gzip\r\n"
        case 1:
            return bomb_in_bomb(), b"Content-Encoding: gzip, gzip\r\n"
        case 2:
            return bomb(), b"Content-Encoding: gzip\r\n"
        case 3:
            return mutated(random, gzip.compress(body, 1), [body]), b"Content-Encoding: gzip\r\n"
        case 4:
            return zlib.compress(body), b"Content-Encoding: deflate\r\n"
        case 5:
            return gzip.compress(b"") * 3000, b"Content-Encoding: gzip\r\n"
        case _:
            return body, b""


def framed(random: Random, body: bytes) -> tuple[bytes, bytes]:
    """A body with its framing, and the headers that name it."""
    match random.randrange(8):
        case 0:
            size = random.choice([1, 1, 2, 1000])
            kept = body[: size * 200_000]
            parts = [kept[at : at + size] for at in range(0, len(kept), size)]
            extension = random.choice([b"", b"", b";" + b"x" * 3000])
            parts = parts[: CHUNKS // (size + len(extension) + 5)]
            chunks = b"".join(b"%x%b\r\n%b\r\n" % (len(part), extension, part) for part in parts)
            return chunks + b"0\r\n\r\n", b"Transfer-Encoding: chunked\r\n"
        case 1:
            return mutated(
                random, b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body), [body]
            ), b"Transfer-Encoding: chunked\r\n"
        case 2:
            return body, b"Content-Length: %d\r\n" % max(0, len(body) + random.choice([-1, 1, 1 << 40]))
        case 3:
            return body, b""
        case _:
            return body, b"Content-Length: %d\r\n" % len(body)


def answer_of(random: Random, asked: Any) -> bytes:
    """The bytes of an answer.  Half of them are plain but for their body, so that it is read."""
    if random.random() < 0.5:
        body = body_of(random, asked)
        head = b"HTTP/1.1 200 x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        return head % len(body) + body
    body, encoding = encoded(random, body_of(random, asked))
    body, framing = framed(random, body)
    code = random.choice([200, 200, 200, 200, 201, 204, 301, 307, 401, 403, 404, 409, 429, 500, 503])
    media = random.choice(
        [b"application/json", b"application/json", b"text/plain", b"application/yaml", b"x", b"\xff/"]
    )
    head = b"HTTP/1.1 %d x\r\nContent-Type: %b\r\nSet-Cookie: a=%d\r\n" % (
        code,
        media,
        random.randrange(10**6),
    )
    if code in (301, 307) and random.random() < 0.9:
        head += b"Location: %b\r\n" % random.choice(LOCATIONS).encode("latin-1")
    if random.random() < 0.1:
        head += random.choice(
            [
                b"x: y\r\n" * 20_000,
                b"a b: c\r\n",
                b" folded\r\n",
                b"Upgrade: x\r\nConnection: upgrade\r\n",
                b"Retry-After: x\r\n",
            ]
        )
    if random.random() < 0.1:
        head = (
            random.choice([b"HTTP/1.1 100 x\r\n\r\n" * 3, b"HTTP/1.1 101 x\r\n\r\n", b"\r\n", b"\0" * 20])
            + head
        )
    whole = head + encoding + framing + b"\r\n" + body
    if random.random() < 0.2:
        cut = head + encoding + framing + b"\r\n"
        return mutated(random, cut, [VALID.encode()]) + body
    return whole
