"""Rules for Rust: length of functions, output, system calls, imports between crates."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.tidy.python_rules import EMPTY_NAMES
from tests.tidy.source import Source

FUNCTION_LINES_MAX = 70
PRINTERS = re.compile(
    r"crates/(engine/src/output|pgdyno-engine/src/(main|app|bin/\w+)|powerloss/src/app)\.rs"
    r"|crates/pgbench/src/"
    r"|crates/[\w/-]+/(tests|build\.rs)"
    r"|bench/\w+/src/(main\.rs|bin/)"
)
PURE_CRATES = re.compile(r"crates/((wire|script|logs)/|powerloss/src/model/)")
IMPURE_NAMES = re.compile(
    r"\bstd::(net|fs|process|thread|env|time::(Instant|SystemTime)|io::(stdin|stdout|stderr)"
    r"|os::(unix|fd|linux))\b|\b(rustix|libc|mio|tokio|pgdyno_engine)::"
)
# Which crates of this project a crate may depend on; the executable may depend on all.
ARROWS_OF_CRATES = {
    "wire": set(),
    "script": set(),
    "logs": set(),
    "powerloss": set(),
    "engine": {"wire", "script"},
    "programs": {"wire", "script", "engine-core"},
    "pgbench": {"wire", "script", "engine-core"},
}
PROGRAM_NAMES = re.compile(r"tpc-?c|ledger|warehouse|mirror", re.IGNORECASE)
# The contract's word for the templates of a program.
NAME_OF_TEMPLATES = 'rename = "mirror"'
NETWORK_NAMES = re.compile(
    r"\brustix::(net|event)\b|\b(TcpStream|TcpListener|UnixStream|UnixListener|UdpSocket)\b"
)
# The poller for the load; one blocking socket for the few sessions that create and load tables;
# in `control` a pair of sockets inside the process, by which a signal wakes it.
NETWORK_FILES = re.compile(
    r"crates/engine/src/(poller(\.rs|/)|session/socket\.rs|control\.rs)"
    r"|crates/[\w/-]+/tests/|bench/"
)
LITERALS = re.compile(
    r'//[^\n]*|/\*.*?\*/|r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"' + r"|b?'(?:\\[^\n']+|[^\\\n'])'", re.S
)
FUNCTION = re.compile(r"\bfn\s+(\w+)[^;{]*\{")
# A local or parameter: neither a field, nor a function, nor a part of a path.
LOCAL = re.compile(r"(?<![.\w:])(?<!fn )(?<!mod )([a-z_]\w*)\b(?!\s*\(|::)")
TEST_CODE = re.compile(r"#\[cfg\(test\)\]\s*(?:pub(?:\(\w+\))?\s+)?mod\s+\w+\s*\{")


def bare(text: str) -> str:
    """Return Rust `text` with blanks for comments and literals; lines keep their numbers."""
    return LITERALS.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def product(text: str) -> str:
    """Return Rust `text` as `bare` does, without its `#[cfg(test)]` modules."""
    code = bare(text)
    while match := TEST_CODE.search(code):
        end = _closing(code, match.end() - 1)
        code = code[: match.start()] + re.sub(r"[^\n]", " ", code[match.start() : end]) + code[end:]
    return code


def _closing(code: str, opening: int) -> int:
    """Return the place after the brace that closes the one at `opening`."""
    depth = 0
    for place in range(opening, len(code)):
        depth += {"{": 1, "}": -1}.get(code[place], 0)
        if depth == 0:
            return place + 1
    return len(code)


def _line(code: str, place: int) -> int:
    return code.count("\n", 0, place) + 1


def function_length(source: Source) -> Iterator[str]:
    """A function has at most 70 lines."""
    code = bare(source.text)
    for match in FUNCTION.finditer(code):
        first, last = _line(code, match.start()), _line(code, _closing(code, match.end() - 1) - 1)
        if last - first + 1 > FUNCTION_LINES_MAX:
            text = f"{match[1]} has {last - first + 1} lines, at most {FUNCTION_LINES_MAX}"
            yield source.problem(first, text)


def printing_in_one_place(source: Source) -> Iterator[str]:
    """Only the program's entry, its records and the drop-in write to standard output."""
    if not PRINTERS.match(source.path):
        pattern = re.compile(r"\bprint(ln)?!|\bio::stdout\(")
        yield from _uses(source, pattern, "belongs to app, output or pgbench")


def pure_crates(source: Source) -> Iterator[str]:
    """`wire`, `script`, `logs`, the model of `powerloss`: no socket, file, clock or thread."""
    if PURE_CRATES.match(source.path) and "/tests/" not in source.path:
        yield from _uses(source, IMPURE_NAMES, "does not belong into a pure crate")


def network_in_one_place(source: Source) -> Iterator[str]:
    """The poller makes the network system calls of the load, one file those of other sessions."""
    if source.path.startswith("crates/") and not NETWORK_FILES.match(source.path):
        yield from _uses(source, NETWORK_NAMES, "belongs to the poller")


def crate_arrow(source: Source) -> Iterator[str]:
    """Crates depend on each other as `ARROWS_OF_CRATES` says."""
    match = re.fullmatch(r"crates/(programs(?=/)|[\w-]+)(/\w+)?/Cargo\.toml", source.path)
    is_crate = match is not None and (match[1] == "programs") == (match[2] is not None)
    allowed = ARROWS_OF_CRATES.get(match[1]) if match and is_crate else None
    for number, line in enumerate(source.lines, 1):
        other = re.match(r"\s*(?:\[.*\.)?pgdyno-([\w-]+)\b", line)
        if allowed is not None and other and other[1] not in allowed:
            yield source.problem(number, f"this crate may not depend on {other[1]}")


def core_names_no_program(source: Source) -> Iterator[str]:
    """The engine's library gets its programs and datasets from the executable, and names none."""
    if source.path.startswith("crates/engine/src/"):
        for number, line in enumerate(source.lines, 1):
            name = PROGRAM_NAMES.search(line.replace(NAME_OF_TEMPLATES, ""))
            if name:
                yield source.problem(number, f"the core of the engine names {name[0]}")


def locals_named_by_content(source: Source) -> Iterator[str]:
    """A local or parameter has the noun of what it holds."""
    code, untested = bare(source.text), product(source.text)
    for local in LOCAL.finditer(code):
        is_of_tests = "/tests/" in source.path or not untested[local.start()].strip()
        # The engine's tests call the result of the tested function `found`.
        names = EMPTY_NAMES - {"found"} if is_of_tests else EMPTY_NAMES
        if local[1] in {*names, "it"}:
            text = f"name this by what it holds rather than `{local[1]}`"
            yield source.problem(_line(code, local.start()), text)


def _uses(source: Source, pattern: re.Pattern[str], text: str) -> Iterator[str]:
    code = product(source.text)
    for match in pattern.finditer(code):
        yield source.problem(_line(code, match.start()), f"{match[0]} {text}")
