"""Removes passwords, keys and tokens from texts: the one place that knows what a secret looks like.

Every text that pgdyno prints or stores goes through here: `cli.output` and `store.files` call it
for all that they write, errors for their messages, templates for each value, the starter of
processes to refuse arguments. Limits: a secret without a name, such as a password as the second
argument of a user's own function, is not recognised.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

MASK = "***"
_SECRET_KEYS = frozenset(("password", "passwd", "sslpassword", "pgpassword", "passfile", "secret"))


def _encoded(word: str) -> str:
    """Return a pattern for a word of a URI, whose letters may be percent-encoded."""
    return "".join(f"(?:{c}|%{ord(c):02x}|%{ord(c.upper()):02x})" for c in word)


# The end of the name of a secret, such as ssl-password, client_secret or app.api_key.
_NAME = (
    r"(?:password|passwd|passphrase|pwd|secret|token|credentials?|scram_(?:client|server)_key"
    r"|(?:api|access|secret|private|account|shared|encryption)[_-]?key"
    rf"|{_encoded('password')}|{_encoded('sslpassword')})"
)
# A text in quotes: of SQL, of a connection string within SQL, of a shell; it may have no end.
_TEXT = (
    r"(?:(?:\b[EN]|\bU&)?''(?!'').*?(?<!')''(?!')|(?:\b[EN]|\bU&)?'(?:''|\\.|[^'\\])*(?:'|$)"
    r"|(?P<tag>\$(?:[A-Za-z_]\w*)?\$).*?(?:(?P=tag)|$))"
)
_QUOTED = (
    r"(?:''[^']+''|'(?:''|\\.|[^'\\])*'|\\+'[^'\\]*\\+'"
    r"|\"(?:\\.|[^\"\\])*\"|\\+\"[^\"\\]*\\+\"|\{[^}]*\})"
)
_ESCAPED = r"\\(?![\"'](?:[\s\\,)]|$))."
_WORD = (
    rf"(?:(?:{_ESCAPED}|[^\s&'\"\\])"
    rf"(?:(?:{_ESCAPED}|[^\s&\"\\])*(?:{_ESCAPED}|[^\s&\"'\\.,:;)\]]))?)"
)
_GAP = r"(?:\s|/\*.{0,500}?\*/|--[^\n]{0,500}\n){0,50}"
_FLAGS = re.I | re.S
_HEADERS = (
    r"(?:(?:proxy-)?authorization|(?:set-)?cookie|api-?key"
    r"|x-[\w-]{0,40}(?:key|token|secret|auth)\w*)"
)

_MASKED: tuple[tuple[re.Pattern[str], str], ...] = (
    # The private key of a certificate.
    (
        re.compile(
            r"(-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----).*?(-----END [A-Z ]*KEY-----|$)", _FLAGS
        ),
        rf"\1{MASK}\2",
    ),
    # postgres://user:secret@host. A password may contain "/" or "@". So everything up to the last
    # "@" of the word is masked; otherwise half of a password could remain.
    (re.compile(r"((?<=[a-z0-9])://[^\s:/@\"']*):[^\s\"']{0,2000}@", _FLAGS), rf"\1:{MASK}@"),
    # authorization: Bearer secret, and the same as arguments of a function.
    (
        re.compile(rf"(\b{_HEADERS}[\"'\\]*\s*[:=,]\s*[\"'\\]*)[^\"'\\\r\n]+", _FLAGS),
        rf"\1{MASK}",
    ),
    (re.compile(r"(\bbearer\s+)[\w.~+/=-]{12,}", _FLAGS), rf"\1{MASK}"),
    # CREATE ROLE r PASSWORD 'secret', OPTIONS (user 'a', password 'secret'), IDENTIFIED BY 'secret'
    # A name after "/", such as '/etc/passwd', is a path, unless "/" ends a comment.
    (
        re.compile(
            rf"((?<!['\"\w.-])(?<![^*]/)(?:[\w.-]{{0,60}}{_NAME}|identified\s+by)\"?{_GAP}(?:\bto\b)?{_GAP}){_TEXT}",
            _FLAGS,
        ),
        rf"\1'{MASK}'",
    ),
    # password=secret and password='a secret', in a connection string, a URI or a setting; spaces
    # around "=" are allowed, as libpq allows them.
    (
        re.compile(rf"({_NAME}[\"']?\s{{0,50}}=\s{{0,50}})(?:{_QUOTED}|{_WORD})", _FLAGS),
        rf"\1{MASK}",
    ),
    # A quoted name, a comma or colon, and a text: set_config of a secret, a part of a document.
    (
        re.compile(
            rf"([\"'][\w.-]{{0,60}}{_NAME}[\"']\s*[,:]\s*)(?:{_TEXT}|\"(?:\\.|[^\"\\])*\")", _FLAGS
        ),
        rf"\1'{MASK}'",
    ),
    # Options of programs: curl -u user:secret, wget --http-password secret, sshpass -p secret
    (
        re.compile(
            r"((?<![\w-])(?:-u|--user|--proxy-user)[\s=]*[\"']*[^\s:\"'/]+):[^\s\"']+", _FLAGS
        ),
        rf"\1:{MASK}",
    ),
    (
        re.compile(
            r"((?<![\w-])(?:--(?:[\w]+-)*(?:password|passwd|pass|passphrase|token|secret)"
            r"(?![\w-])[=\s]|sshpass\s+-p)\s*)(?:\"[^\"]*\"|'[^']*'|[^\s\"'-][^\s\"']*)",
            _FLAGS,
        ),
        rf"\1{MASK}",
    ),
    # Stored forms of passwords, which can be used or guessed.
    (re.compile(r"SCRAM-SHA-256\$[^\s'\"]+", _FLAGS), f"SCRAM-SHA-256${MASK}"),
    (re.compile(r"\bmd5[0-9a-f]{32}\b", _FLAGS), f"md5{MASK}"),
)
# Functions whose arguments are keys.
_CALLS = re.compile(r"\b(?:pgp_\w+|(?:raw_)?(?:en|de)crypt(?:_iv)?|hmac|crypt)\s*\(", _FLAGS)
_STRING = re.compile(rf"{_TEXT}", _FLAGS)
# A text without all of these has no secret. Most texts have none of them.
_TELLING = (
    *("passw", "passphrase", "pwd", "secret", "_key", "-key", "token", "credential", "://"),
    *("apikey", "esskey", "etkey", "atekey", "untkey", "redkey", "ionkey"),
    *("authoriz", "bearer", "cookie", "-u", "--", "sshpass", "scram-sha", "md5", "crypt", "hmac"),
    *("pgp_", "identified", "private key", "%50", "%70", "%53", "%73"),
)
_TELLING_BYTES = tuple(word.encode() for word in _TELLING)


def may_have_secrets(content: bytes) -> bool:
    """Return whether a text must be looked at closely; fast enough for every sample."""
    lowered = content.lower()
    return any(word in lowered for word in _TELLING_BYTES)


_WHOLE_MAX = 2000
# A text that is a URI alone, whose password may have blanks and quotes.
_WHOLE_URI = re.compile(r"(\s*[a-z][a-z0-9+.:-]*://[^:@/]*):.*@", re.I | re.S)


def redacted(text: str) -> str:
    """Return a text with MASK in place of its secrets."""
    if not _may_have_secrets(text):
        return text
    if (whole := _WHOLE_URI.match(text)) is not None and len(text) < _WHOLE_MAX:
        text = f"{whole[1]}:{MASK}@{text[whole.end() :]}"
    for pattern, replacement in _MASKED:
        text = pattern.sub(replacement, text)
    return _without_keys_of_calls(text)


def without_secrets(value: Any) -> Any:
    """Return a copy of a JSON value without secret keys, and with every string redacted."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, Mapping):
        return {
            key: without_secrets(item)
            for key, item in value.items()
            if str(key).lower() not in _SECRET_KEYS
        }
    if isinstance(value, list | tuple):
        return [without_secrets(item) for item in value]
    return value


def redacted_output(text: str) -> str:
    """Return a text or a JSON document without secrets; a document stays one.

    Limits: a page (HTML, SVG) is not changed here: its values were redacted when it was made.
    """
    if text.startswith("<") or not _may_have_secrets(text):
        return text
    try:
        document = json.loads(text)
    except ValueError:
        return redacted(text)
    clean = without_secrets(document)
    if clean == document:
        return text
    end = "\n" if text.endswith("\n") else ""
    return json.dumps(clean, indent=2, ensure_ascii=False) + end


def redacted_toml(text: str) -> str:
    """Return a TOML document without secrets; it stays one, whatever its texts contain."""
    if not _may_have_secrets(text):
        return text
    import tomllib

    import tomli_w

    document = tomllib.loads(text)
    clean = without_secrets(document)
    return text if clean == document else tomli_w.dumps(clean)


def _may_have_secrets(text: str) -> bool:
    lowered = text.lower()
    return any(word in lowered for word in _TELLING)


def _without_keys_of_calls(text: str) -> str:
    """Mask every string among the arguments of a function that takes keys, and within calls."""
    begin = 0
    while (call := _CALLS.search(text, begin)) is not None:
        end = _end_of_call(text, call.end())
        inside = _STRING.sub(f"'{MASK}'", text[call.end() : end])
        text = text[: call.end()] + inside + text[end:]
        begin = call.end() + len(inside) + 1
    return text


def _end_of_call(text: str, at: int) -> int:
    depth = 1
    while at < len(text):
        string = _STRING.match(text, at)
        if string is not None and string.end() > at:
            at = string.end()
            continue
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return at
        at += 1
    return len(text)


# What moves the cursor, or changes the order in which a terminal shows characters, or has no width:
# C0 except tab and newline, C1, marks and overrides of direction, line separators, tags.
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    r"\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def printable(text: str) -> str:
    """Return a text with control characters escaped as in JSON, because a name may contain them.

    A JSON document stays valid: it has such characters only inside of strings.
    """
    return _CONTROL.sub(lambda match: json.dumps(match[0])[1:-1], text)


def printable_json(text: str) -> str:
    """Return a JSON document whose texts are printable after a program has read them, too."""
    return _CONTROL.sub(lambda match: json.dumps(match[0])[1:-1].replace("\\", r"\\"), text)
