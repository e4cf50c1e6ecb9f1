"""A snippet that each rule refuses, and one that it passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.tidy import english, everywhere, python_rules, rust_rules, units
from tests.tidy.source import Source

Rule = Callable[[Source], Iterator[str]]

LONG_PYTHON = "def f():\n" + "    pass\n" * 70
LONG_RUST = "fn f() {\n" + "    g('{');\n" * 69 + "}\n"
SNIPPETS: list[tuple[Rule, str, str, str]] = [
    # rule, path, refused, passed
    (everywhere.file_length, "python/pgdyno/x.py", "a = 1\n" * 601, "a = 1\n" * 600),
    (everywhere.file_length, "x.css", "a{}\n" * 601, "/* generated */\n" + "a{}\n" * 601),
    (everywhere.line_length, "x.rs", "a " * 51, "a " * 50 + "\n" + "a" * 101),
    (everywhere.line_length, "crates/x/tests/a.rs", "a " * 51, f'"{"a " * 99}"'),
    (english.plain_prose, "docs/x.md", "That is said.", "It says that."),
    (english.plain_prose, "python/pgdyno/spec/a.py", "a = 'has its own beside'", "beside = 'own'"),
    (english.plain_prose, "tests/a.py", "# Tables of its own.", "a.beside()"),
    (english.plain_prose, "crates/x/src/a.rs", "/// So many are left.", "let beside = whoever();"),
    (english.plain_prose, "docs/a.md", "That is no number.", "There is no number."),
    (english.plain_prose, "docs/a.md", "Partitions, from 5 on.", "At least 5 partitions."),
    (everywhere.prose_length, "docs/x.md", "a " * 51, "| " + "a " * 51 + "\n```\n" + "a " * 51),
    (everywhere.left_behind, "x.py", "# FIX" + "ME later", "# FIX" + "MENT"),
    (everywhere.left_behind, "x.py", "# TO" + "DO later", "# TO" + "DO(#12): later"),
    (everywhere.left_behind, "x.rs", "dbg" + "!(x)", "debug!(x)"),
    (python_rules.function_length, "x.py", LONG_PYTHON, LONG_PYTHON[: -len("    pass\n")]),
    (
        python_rules.import_order,
        "python/pgdyno/spec/a.py",
        "from pgdyno.measure import x",
        "from pgdyno.errors import x",
    ),
    (
        python_rules.import_order,
        "python/pgdyno/process/a.py",
        "def f():\n    from ..server import x",
        "from .child import x",
    ),
    (python_rules.import_order, "python/pgdyno/misc/a.py", "import os", "# generated\n"[:0]),
    (
        python_rules.import_order,
        "python/pgdyno/plan/a.py",
        "from pgdyno import loop",
        "from pgdyno import analysis",
    ),
    (
        python_rules.words_of_features,
        "python/pgdyno/report/a.py",
        "if run.program == 'tpcc-like':\n    pass",
        "own = own_shown(run)",
    ),
    (
        python_rules.features_keep_apart,
        "python/pgdyno/store/a.py",
        "def f():\n    from pgdyno.features.tune import review",
        "from pgdyno.feature import parts",
    ),
    (
        python_rules.features_keep_apart,
        "python/pgdyno/store/a.py",
        "import_module('pgdyno.features.tune')",
        "import_module('pgdyno.spec')",
    ),
    (
        python_rules.features_keep_apart,
        "python/pgdyno/features/watch/a.py",
        "from pgdyno.features.tune.review import review",
        "from pgdyno.features.doctor.finding import Finding\nfrom pgdyno.features.watch import b",
    ),
    (
        python_rules.designs_in_one_table,
        "python/pgdyno/answer/a.py",
        "isinstance(x.design, CompareDesign | PassesDesign)",
        "isinstance(x, Comparison)",
    ),
    (
        python_rules.designs_in_one_table,
        "python/pgdyno/report/a.py",
        "if findings.kind == 'sweep':\n    pass",
        "if mark.kind == 'checkpoint':\n    pass",
    ),
    (
        python_rules.locals_named_by_content,
        "python/pgdyno/a.py",
        "def f(found):\n    return [one for one in found]",
        "def f(rows):\n    return [g(row, one=1).found for row in rows]",
    ),
    (
        python_rules.one_form_of_percent,
        "python/pgdyno/a.py",
        "text = f'{share:.1%} of it'",
        "text = f'{percent(share)} of {count:,d} {100 * share:.1f}'",
    ),
    (
        python_rules.locals_named_by_content,
        "tests/store/test_a.py",
        "found = [row.count for row in rows]",
        "counts = [row.count for row in rows]",
    ),
    (python_rules.arguments_by_name, "python/pgdyno/a.py", "Run(*(a, b), c=d)", "Run(*rows, c=d)"),
    (
        python_rules.type_names_are_nouns,
        "python/pgdyno/spec/a.py",
        "class HeadSpilled:\n    pass",
        "class SpilledHead:\n    pass\n\n\nclass Seed:\n    pass",
    ),
    (
        python_rules.no_io_in_pure_stages,
        "python/pgdyno/analysis/a.py",
        "from pathlib import Path",
        "import numpy as np\nfrom pgdyno.errors import AnalysisError",
    ),
    (
        python_rules.no_io_in_pure_stages,
        "python/pgdyno/plan/a.py",
        "from pgdyno.store import catalogue",
        "from pgdyno.analysis import curve",
    ),
    (
        python_rules.no_io_in_pure_stages,
        "python/pgdyno/analysis/a.py",
        "import numpy as np\nnp.load(x)",
        "import numpy as np\nnp.log(x)",
    ),
    (
        python_rules.processes_in_one_place,
        "python/pgdyno/server/a.py",
        "from subprocess import run as go\ngo(['ls'])",
        "from subprocess import PIPE",
    ),
    (
        python_rules.processes_in_one_place,
        "python/pgdyno/cli/a.py",
        "import os\nos.execvp('a', b)",
        "import os\nos.getpid()",
    ),
    (
        python_rules.printing_in_one_place,
        "python/pgdyno/report/a.py",
        "print('x')",
        "blueprint('x')",
    ),
    (
        python_rules.writing_in_few_places,
        "python/pgdyno/store/a.py",
        "from pathlib import Path\nPath('a').write_text('b')",
        "from pgdyno.store import files\nfiles.write_text(a, 'b')\na.open('rb')",
    ),
    (
        python_rules.writing_in_few_places,
        "python/pgdyno/store/a.py",
        "a.open('ab')",
        "a.open(encoding='utf-8')",
    ),
    (
        python_rules.skipping_in_one_place,
        "tests/store/test_a.py",
        "import pytest\npytest.skip('no bird here')",
        "from tests.fixtures import needs\nneeds.offered(False, 'no bird here')",
    ),
    (
        python_rules.printing_in_one_place,
        "python/pgdyno/measure/a.py",
        "import sys\nsys.stderr.write('x')",
        "import sys\nsys.stdout.flush()\nsys.exit(1)",
    ),
    (
        python_rules.one_clock,
        "python/pgdyno/measure/a.py",
        "from time import time\ntime()",
        "import time\ntime.sleep(1)",
    ),
    (
        python_rules.one_clock,
        "python/pgdyno/store/a.py",
        "import datetime\ndatetime.datetime.now()",
        "import datetime\ndatetime.datetime.fromtimestamp(0)",
    ),
    (
        python_rules.seeded_randomness,
        "tests/a.py",
        "import numpy as np\nnp.random.default_rng()",
        "import numpy as np\nnp.random.default_rng(7)",
    ),
    (
        python_rules.seeded_randomness,
        "python/pgdyno/measure/a.py",
        "import random\nrandom.random()",
        "import random\nrandom.Random(7).random()",
    ),
    (
        units.units_in_names,
        "python/pgdyno/measure/a.py",
        "@dataclass\nclass A:\n    duration: float",
        "@dataclass\nclass A:\n    duration_s: float\n    clients: int\n    latency_ns_p99: int",
    ),
    (
        units.units_in_names,
        "python/pgdyno/measure/a.py",
        "class A(BaseModel):\n    busy: float | None = None",
        "class A(BaseModel):\n    busy_ratio: float\n    tps: Estimate\n    _busy: float",
    ),
    (rust_rules.function_length, "crates/engine/src/a.rs", LONG_RUST, LONG_RUST[:-12] + "}\n"),
    (
        rust_rules.printing_in_one_place,
        "crates/engine/src/worker.rs",
        'fn f() { println!("x"); }',
        '// println!("x")\n#[cfg(test)]\nmod tests { fn f() { println!("x"); } }',
    ),
    (
        rust_rules.pure_crates,
        "crates/wire/src/a.rs",
        "use std::net::TcpStream;",
        "use std::collections::BTreeMap;",
    ),
    (
        rust_rules.network_in_one_place,
        "crates/engine/src/worker.rs",
        "use rustix::net::socket;",
        "use std::net::IpAddr;",
    ),
    (
        rust_rules.locals_named_by_content,
        "crates/wire/src/a.rs",
        "fn f(found: &[u32]) { found.iter().for_each(|it| g(it)); }",
        "// one\nfn f(rows: &mut Rows) -> u32 { rows.one().found }",
    ),
    (
        rust_rules.locals_named_by_content,
        "crates/wire/tests/a.rs",
        "fn f() { let each = 1; }",
        "fn f() { let found = 1; }",
    ),
    (
        rust_rules.core_names_no_program,
        "crates/engine/src/a.rs",
        "// Only tpcc needs this.",
        '#[serde(rename = "mirror")]',
    ),
    (
        rust_rules.crate_arrow,
        "crates/wire/Cargo.toml",
        'pgdyno-script = { path = "../script" }',
        'name = "pgdyno-wire"',
    ),
]
