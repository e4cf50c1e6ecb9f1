from __future__ import annotations

from tests.programs.toy.answer import Market

from pgdyno.analysis.findings import RunFindings
from pgdyno.report import numbers
from pgdyno.report.blocks import (
    BlockSection,
    DocumentKeys,
    FirstCharts,
    LabelledLine,
    TableBlock,
    TableColumn,
    number_tile,
)


def shown_of(run: RunFindings) -> BlockSection:
    own: Market = run.program.own
    table = TableBlock(
        "Goods of the market",
        (
            TableColumn("good"),
            TableColumn("sold", "pieces"),
            TableColumn("why", meaning="reason", is_words=True),
        ),
        (("apples", f"{own.lines}", "ripe"),),
        short_row_count=1,
    )
    return BlockSection(
        title="Market",
        anchor="toy",
        short="Toy",
        lead="A market of stalls.",
        blocks=(
            LabelledLine("sales", numbers.estimate_text(own.sales)),
            table,
            number_tile("sales of the toy", own.sales),
            DocumentKeys({"sales": own.sales.to_json(), "lines_sold": own.lines}),
            FirstCharts(("sales",)),
        ),
    )
