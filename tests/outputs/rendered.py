"""Every kind of result in every form, as the snapshots of `tests/outputs` keep it.

`.venv/bin/python -m tests.outputs.rendered` writes the snapshots again. Commit a wanted change of
words separately, so that the difference of the snapshots shows only what was wanted.

Limits: numbers are kept to nine significant digits, because the last digits of a sum depend on the
CPU. The style, the scripts and their hashes are taken out of a page. The pictures of Markdown are
left out: `tests/report/test_paper.py` looks at them.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from tests.features.tpcc import test_tpcc_findings
from tests.features.watch.examples import DOCUMENT, text_of, watch_page, watched
from tests.report import compare_examples, examples, variant_examples

from pgdyno.analysis.findings import ExperimentFindings, ProgramFindings
from pgdyno.designs import answer_of, blocks_of, document_of, page_of, words_of
from pgdyno.report.block_text import answer_text
from pgdyno.report.html import answer_page
from pgdyno.report.markdown import answer_markdown
from pgdyno.report.result_kind import RESULTS
from pgdyno.store.experiment import Store
from pgdyno.store.folder import ExperimentFolder

SNAPSHOTS = Path(__file__).with_name("snapshots")
# Results that an earlier pgdyno stored; they are never made again.
STORED = (Path(__file__).parents[1] / "store/fixtures", Path(__file__).with_name("stored"))
WIDTH = 100
# Texts are kept whole, because a reader wants to see their difference.
WHOLE = (".txt",)
_LONG_NUMBER = re.compile(r"(?<![\w.])\d+\.\d{5,}(?:e[+-]?\d+)?(?![\w.])")
_SAME_IN_EVERY_PAGE = re.compile(
    r"<style>.*?</style>|<script>.*?</script>|(?<=content=\")default-src[^\"]*", re.DOTALL
)

Outputs = dict[str, str]


def tpcc_run() -> ExperimentFindings:
    """Return a run of the TPC-C-like program, with its types and shares."""
    base = examples.bench()
    assert base.run is not None
    own = test_tpcc_findings.findings(think=1, warehouses=350)
    run = replace(base.run, program=ProgramFindings("tpcc-like", own), label="tpcc-like")
    return replace(base, name="tpcc", run=run)


BUILT: dict[str, Callable[[], ExperimentFindings]] = {
    **{name: make for name, make in examples.EXAMPLES.items() if name != "hour"},
    **variant_examples.EXAMPLES,
    "tpcc": tpcc_run,
    "plans": lambda: compare_examples.compared(plans=(compare_examples.CHANGE,)),
    "long names": compare_examples.with_long_names,
    "tune": variant_examples.tuned,
    "tune alone": lambda: variant_examples.tuned(is_alone=True),
    "tune not better": lambda: variant_examples.tuned(verdict="not known"),
}


def all_outputs() -> Outputs:
    """Return each output by its file name, such as `stored-sweep.txt`."""
    outputs = {f"built-{name}": forms_of(make()) for name, make in BUILT.items()}
    text = json.dumps(DOCUMENT, indent=2, ensure_ascii=False)
    page = watch_page(watched())
    outputs["built-watch"] = {".txt": text_of(DOCUMENT), ".html": page, ".json": text}
    with tempfile.TemporaryDirectory() as store:
        for name, folder in stored_results(Path(store)):
            is_experiment = folder.is_experiment
            outputs[name] = forms_of(answer_of(folder)) if is_experiment else forms_in(folder)
    return {
        f"{name}{ending}".replace(", ", "-").replace(" ", "-"): comparable(text)
        for name, forms in outputs.items()
        for ending, text in forms.items()
    }


def stored_results(store: Path) -> Iterator[tuple[str, ExperimentFolder]]:
    """Yield the name and the folder of each result that an earlier pgdyno stored."""
    for archive in sorted(path for folder in STORED for path in folder.rglob("*.tar.xz")):
        name = archive.name.removesuffix(".tar.xz")
        with tarfile.open(archive) as packed:
            packed.extractall(store / name, filter="data")
        yield f"stored-{name}", Store(store / name).find("last")


def forms_of(findings: ExperimentFindings) -> Outputs:
    """Return an answer in each form, by the ending of its file."""
    return {
        ".txt": words_of(findings, WIDTH),
        ".html": page_of(findings),
        ".md": answer_markdown(blocks_of(findings), stem="report"),
        ".json": json.dumps(document_of(findings), indent=2, ensure_ascii=False),
    }


def forms_in(folder: ExperimentFolder) -> Outputs:
    """Return a result without runs in each form."""
    kind = RESULTS[folder.verb]
    document = kind.document(folder)
    answer, remarks = kind.answer(folder), folder.remarks()
    return {
        ".txt": answer_text(kind.blocks(document, None), WIDTH),
        ".html": answer_page(answer, remarks),
        ".md": answer_markdown(answer, remarks),
        ".json": json.dumps(document, indent=2, ensure_ascii=False),
    }


def comparable(text: str) -> str:
    """Return an output without what depends on the CPU, or is the same in every page."""
    short = _LONG_NUMBER.sub(lambda number: f"{float(number[0]):.9g}", text)
    return _SAME_IN_EVERY_PAGE.sub("", short)


def snapshots_of(outputs: Outputs) -> Outputs:
    """Return the content of each snapshot: texts whole, the rest as one list of hashes."""
    kept = {name: text for name, text in outputs.items() if name.endswith(WHOLE)}
    hashes = "".join(
        f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n"
        for name, text in sorted(outputs.items())
        if name not in kept
    )
    return {**kept, "SHA256SUMS": hashes}


def write_snapshots() -> None:
    """Write every snapshot, and remove those whose output is gone."""
    shutil.rmtree(SNAPSHOTS, ignore_errors=True)
    SNAPSHOTS.mkdir()
    for name, content in snapshots_of(all_outputs()).items():
        (SNAPSHOTS / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    write_snapshots()
