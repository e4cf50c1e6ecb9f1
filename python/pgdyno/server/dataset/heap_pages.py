"""Pages of pgbench_accounts, made from a page that the server itself wrote.

All accounts have the same width, and rows of COPY FREEZE depend on nothing but their place. So a
page differs from any other only in its account numbers, its branch, its number within the file,
and its checksum. `model_of` takes these places from a sample of the server's own pages, makes the
whole sample again, and compares: a server whose pages follow other rules is not imitated.

Source: "Database Page Layout" in the manual; bufpage.h, itemid.h, htup_details.h, and
checksum_impl.h (FNV-1a in 32 lanes).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

PAGE_BYTES = 8192
_HEADER_BYTES = 24
ACCOUNTS_PER_BRANCH = 100_000
# Places in the header of a page, in bytes.
_LSN = slice(0, 8)
_CHECKSUM = slice(8, 10)
_LOWER, _UPPER = 12, 14
_CTID_IN_TUPLE, _HOFF_IN_TUPLE = 12, 22
# A page of the visibility map has two bits for each page of the table.
_TABLE_PAGES_PER_MAP_BYTE = 4
TABLE_PAGES_PER_MAP_PAGE = (PAGE_BYTES - _HEADER_BYTES) * _TABLE_PAGES_PER_MAP_BYTE

Pages = npt.NDArray[np.uint8]
"""Shape (pages, PAGE_BYTES)."""


class UnknownPages(Exception):
    """The server's pages differ from the pages that this module would make."""


@dataclass(frozen=True, slots=True)
class PageModel:
    """The model of a full page, and the places where pages differ.

    Args: template, of PAGE_BYTES; map_header, of a page of the visibility map, b"" if COPY writes
    none; tuple_offset_bytes and aid_offset_bytes, places in bytes by row; aid_bytes, 4 or 8.
    """

    template: bytes
    map_header: bytes
    tuple_offset_bytes: npt.NDArray[np.int64]
    aid_offset_bytes: npt.NDArray[np.int64]
    aid_bytes: int
    has_checksums: bool

    @property
    def rows_per_page(self) -> int:
        """Return how many accounts fit into a page."""
        return len(self.tuple_offset_bytes)

    def page_count(self, row_count: int) -> int:
        """Return the number of pages that a table of this many accounts has."""
        return -(-row_count // self.rows_per_page)

    def pages(self, first: int, count: int, row_count: int) -> Pages:
        """Return `count` pages from number `first` on, of a table of `row_count` accounts."""
        made = np.tile(np.frombuffer(self.template, dtype=np.uint8), (count, 1))
        numbers = np.arange(first, first + count, dtype=np.int64)[:, None]
        halves = made.view("<u2")
        ctid_at = (self.tuple_offset_bytes + _CTID_IN_TUPLE) // 2
        halves[:, ctid_at] = numbers >> 16
        halves[:, ctid_at + 1] = numbers & 0xFFFF
        aid = numbers * self.rows_per_page + np.arange(1, self.rows_per_page + 1)
        bid_at = self.aid_offset_bytes + self.aid_bytes
        made.view(f"<i{self.aid_bytes}")[:, self.aid_offset_bytes // self.aid_bytes] = aid
        made.view("<i4")[:, bid_at // 4] = (aid - 1) // ACCOUNTS_PER_BRANCH + 1
        rest = row_count - (first + count - 1) * self.rows_per_page
        if rest < self.rows_per_page:
            self._shorten(made[-1], rest)
        if self.has_checksums:
            add_checksums(made, first)
        return made

    def _shorten(self, page: Pages, row_count: int) -> None:
        """Remove all rows after the first ones."""
        lower, upper = _HEADER_BYTES + 4 * row_count, int(self.tuple_offset_bytes[row_count - 1])
        page[lower:upper] = 0
        page[_LOWER : _UPPER + 2] = np.array([lower, upper], dtype="<u2").view(np.uint8)

    def map_pages(self, row_count: int) -> Pages:
        """Return the visibility map: every page visible to all, and frozen."""
        table_pages = self.page_count(row_count)
        made = np.zeros((-(-table_pages // TABLE_PAGES_PER_MAP_PAGE), PAGE_BYTES), dtype=np.uint8)
        made[:, :_HEADER_BYTES] = np.frombuffer(self.map_header, dtype=np.uint8)
        for number, page in enumerate(made):
            covered = min(table_pages - number * TABLE_PAGES_PER_MAP_PAGE, TABLE_PAGES_PER_MAP_PAGE)
            whole, rest = divmod(covered, _TABLE_PAGES_PER_MAP_BYTE)
            page[_HEADER_BYTES : _HEADER_BYTES + whole] = 0xFF
            if rest:
                page[_HEADER_BYTES + whole] = (1 << 2 * rest) - 1
        if self.has_checksums:
            add_checksums(made, 0)
        return made


def model_of(
    sample: bytes, sample_map: bytes, row_count: int, *, aid_bytes: int, has_checksums: bool
) -> PageModel:
    """Return the model that makes just the pages of a sample.

    Args: sample and sample_map, the files of a table and of its visibility map that hold accounts
    1 to `row_count`, more than a page and not whole pages; aid_bytes, of the column `aid`.
    Raises: UnknownPages, also if the sample would not be made again byte for byte.
    """
    if sys.byteorder != "little" or len(sample) < 2 * PAGE_BYTES or len(sample) % PAGE_BYTES:
        raise UnknownPages
    seen = _as_pages(sample)
    template = _blank(seen[:1])[0]
    lower = int(template.view("<u2")[_LOWER // 2])
    pointers = template[_HEADER_BYTES:lower].view("<u4")
    tuple_offset_bytes = (pointers & 0x7FFF).astype(np.int64)
    if not 0 < len(tuple_offset_bytes) < row_count or (tuple_offset_bytes > PAGE_BYTES - 40).any():
        raise UnknownPages
    aid_offset_bytes = tuple_offset_bytes + template[tuple_offset_bytes + _HOFF_IN_TUPLE]
    model = PageModel(
        template=template.tobytes(),
        map_header=_blank(_as_pages(sample_map))[0, :_HEADER_BYTES].tobytes()
        if sample_map
        else b"",
        tuple_offset_bytes=tuple_offset_bytes,
        aid_offset_bytes=aid_offset_bytes,
        aid_bytes=aid_bytes,
        has_checksums=has_checksums,
    )
    if (aid_offset_bytes % aid_bytes).any():
        raise UnknownPages
    again = [model.pages(0, model.page_count(row_count), row_count)]
    files = [seen]
    if sample_map:
        again.append(model.map_pages(row_count))
        files.append(_as_pages(sample_map))
    for made, original in zip(again, files, strict=True):
        if made.shape != original.shape or not np.array_equal(_blank(made), _blank(original)):
            raise UnknownPages
        if has_checksums and not _has_good_checksums(original):
            raise UnknownPages
    return model


def add_checksums(pages: Pages, first: int) -> None:
    """Set the checksums of pages, of which the first has the number `first` in its file."""
    pages[:, _CHECKSUM] = 0
    words = pages.view("<u4").reshape(len(pages), -1, len(_BASE))
    sums = np.tile(_BASE, (len(pages), 1))
    mixed = np.empty_like(sums)
    silence = np.zeros_like(sums)
    # Two rounds of zeroes mix the last words, too.
    for words_of_round in [*(words[:, place] for place in range(words.shape[1])), silence, silence]:
        np.bitwise_xor(sums, words_of_round, out=mixed)
        np.multiply(mixed, _PRIME, out=sums)
        np.right_shift(mixed, _SHIFT, out=mixed)
        np.bitwise_xor(sums, mixed, out=sums)
    folded = np.bitwise_xor.reduce(sums, axis=1)
    folded ^= np.arange(first, first + len(pages), dtype=np.uint32)
    pages.view("<u2")[:, _CHECKSUM.start // 2] = folded % 65535 + 1


def _has_good_checksums(pages: Pages) -> bool:
    again = pages.copy()
    add_checksums(again, 0)
    return np.array_equal(again, pages)


def _as_pages(content: bytes) -> Pages:
    return np.frombuffer(content, dtype=np.uint8).reshape(-1, PAGE_BYTES)


def _blank(pages: Pages) -> Pages:
    """Return a copy without the place in the WAL, which each page has from its own history."""
    blank = pages.copy()
    blank[:, _LSN] = 0
    blank[:, _CHECKSUM] = 0
    return blank


_PRIME = np.uint32(16777619)
_SHIFT = np.uint32(17)
_BASE = np.array(
    [
        *(0x5B1F36E9, 0xB8525960, 0x02AB50AA, 0x1DE66D2A, 0x79FF467A, 0x9BB9F8A3, 0x217E7CD2),
        *(0x83E13D2C, 0xF8D4474F, 0xE39EB970, 0x42C6AE16, 0x993216FA, 0x7B093B5D, 0x98DAFF3C),
        *(0xF718902A, 0x0B1C9CDB, 0xE58F764B, 0x187636BC, 0x5D7B3BB1, 0xE73DE7DE, 0x92BEC979),
        *(0xCCA6C0B2, 0x304A0979, 0x85AA43D4, 0x783125BB, 0x6CA8EAA2, 0xE407EAC6, 0x4B5CFC3E),
        *(0x9FBF8C76, 0x15CA20BE, 0xF2CA9FD3, 0x959BD756),
    ],
    dtype=np.uint32,
)
