from __future__ import annotations

from tests.programs.toy.answer import Market

from pgdyno.analysis.findings import RunFindings
from pgdyno.report import numbers
from pgdyno.report.own import Column, OwnShown, OwnTable, number_tile


def shown_of(run: RunFindings) -> OwnShown:
    own: Market = run.program.own
    table = OwnTable(
        "Goods of the market",
        (Column("good"), Column("sold", "pieces"), Column("why", meaning="reason", is_words=True)),
        (("apples", f"{own.lines}", "ripe"),),
    )
    return OwnShown(
        title="Market",
        anchor="toy",
        short="Toy",
        lead="A market of stalls.",
        lines=(("sales", numbers.estimate_text(own.sales)), table),
        tiles=(number_tile("sales of the toy", own.sales),),
        tables=(table,),
        document={"sales": own.sales.to_json(), "lines_sold": own.lines},
        main_panels=("sales",),
    )
