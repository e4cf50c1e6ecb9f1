"""A sheet of A4 that is filled from the top with wrapped texts, tables and charts."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from pgdyno.report.ink import A4_INCHES, colour, new_figure, text_width_inches

_MARGIN_INCHES = 0.55
_LINE_RATIO = 1.32
_POINTS = 72.0


class Sheet:
    """One page; `left_inches` is the free height below the last element."""

    def __init__(self) -> None:
        self.figure = new_figure(*A4_INCHES, dpi=100)
        self._from_top = _MARGIN_INCHES

    @property
    def width_inches(self) -> float:
        """Return the width of a line."""
        return A4_INCHES[0] - 2 * _MARGIN_INCHES

    @property
    def left_inches(self) -> float:
        """Return the free height below the last element."""
        return A4_INCHES[1] - _MARGIN_INCHES - 0.25 - self._from_top

    def space(self, inches: float) -> None:
        """Leave an empty space of this height."""
        self._from_top += inches

    def text(
        self,
        said: str,
        *,
        size: float = 8.0,
        weight: str = "normal",
        ink: str = "ink",
        indent_inches: float = 0.0,
    ) -> None:
        """Write a text, wrapped at the margin."""
        room = self.width_inches - indent_inches
        for line in self.folded(said, room, size=size, weight=weight):
            if self.left_inches <= 0:
                return
            self._put(line, indent_inches, size=size, weight=weight, ink=ink)
            self._from_top += size * _LINE_RATIO / _POINTS

    def heading(self, said: str) -> None:
        """Write the title of a section."""
        self.space(0.13)
        self.text(said, size=11, weight="bold")
        self.space(0.03)

    def rule(self) -> None:
        """Draw a thin line over the width."""
        y = 1 - self._from_top / A4_INCHES[1]
        ends = (_MARGIN_INCHES / A4_INCHES[0], 1 - _MARGIN_INCHES / A4_INCHES[0])
        from matplotlib.lines import Line2D

        line = Line2D(ends, (y, y), color=colour("rule-strong"), linewidth=0.5)
        self.figure.add_artist(line)
        self._from_top += 0.07

    def axes(
        self, height_inches: float, *, left_inches: float = 0.45, right_inches: float = 0.1
    ) -> Axes:
        """Return axes over the width of the page, with room for a title and labels."""
        head, foot = 0.3, 0.3
        top = self._from_top + head
        self._from_top = top + height_inches + foot
        width = self.width_inches - left_inches - right_inches
        axes: Axes = self.figure.add_axes(
            (
                (_MARGIN_INCHES + left_inches) / A4_INCHES[0],
                1 - (top + height_inches) / A4_INCHES[1],
                width / A4_INCHES[0],
                height_inches / A4_INCHES[1],
            )
        )
        return axes

    def table(
        self,
        head: Sequence[str],
        rows: Sequence[Sequence[str]],
        shares: Sequence[float],
        *,
        size: float = 7.5,
    ) -> int:
        """Write rows while there is room, and return how many rows did not fit.

        Args: shares, of the width by column. A cell that is too long for its column is wrapped.
        """
        widths = [share * self.width_inches for share in shares]
        starts = [sum(widths[:i]) for i in range(len(widths))]
        if any(head):
            for start, name in zip(starts, head, strict=True):
                self._put(name, start, size=size - 0.5, ink="ink-3")
            self._from_top += size * _LINE_RATIO / _POINTS
        for number, row in enumerate(rows):
            folded = [
                self.folded(cell, width - 0.08, size=size)
                for cell, width in zip(row, widths, strict=True)
            ]
            lines = max(map(len, folded))
            height = lines * size * _LINE_RATIO / _POINTS
            if height > self.left_inches:
                return len(rows) - number
            top = self._from_top
            for start, cell in zip(starts, folded, strict=True):
                self._from_top = top
                for line in cell:
                    self._put(line, start, size=size)
                    self._from_top += size * _LINE_RATIO / _POINTS
            self._from_top = top + height
        return 0

    def folded(
        self, said: str, room_inches: float, *, size: float, weight: str = "normal"
    ) -> list[str]:
        """Return the lines of a text; a word that is too long has a separate line."""
        lines, line = [], ""
        for word in said.split():
            longer = f"{line} {word}" if line else word
            is_wide = text_width_inches(self.figure, longer, size, weight) > room_inches
            if is_wide and line:
                lines.append(line)
                line = word
            else:
                line = longer
        return [*lines, line] if line or not lines else lines

    def foot(self, said: str) -> None:
        """Write the last line of the sheet."""
        y = (_MARGIN_INCHES - 0.15) / A4_INCHES[1]
        x = _MARGIN_INCHES / A4_INCHES[0]
        self.figure.text(x, y, said, fontsize=6.5, color=colour("ink-3"), va="bottom")

    def _put(
        self, said: str, from_left: float, *, size: float, weight: str = "normal", ink: str = "ink"
    ) -> None:
        self.figure.text(
            (_MARGIN_INCHES + from_left) / A4_INCHES[0],
            1 - (self._from_top + size / _POINTS) / A4_INCHES[1],
            said,
            fontsize=size,
            fontweight=weight,
            color=colour(ink),
            va="baseline",
        )
