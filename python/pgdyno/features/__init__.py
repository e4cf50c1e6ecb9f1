"""The table of features. A feature is a folder here and a line in `FEATURES`."""

from __future__ import annotations

from pgdyno.feature import Feature, Metric

FEATURES = (
    Feature(
        name="tpcc",
        package="pgdyno.features.tpcc",
        verbs={
            "check": "Check whether a dataset is consistent.",
            "spec": "Make a spec file from a file of another tool.",
        },
        heading="Data and loads",
        programs={
            "tpcc-like": {
                name: name for name in ("load", "translation", "data", "answer", "shown")
            },
        },
        metrics={
            "tpcc-like": (
                Metric(
                    name="nopm",
                    words="NOPM",
                    meaning="New-Orders completed per minute (tpcc-like)",
                    unit="1/min",
                    counts="new-order",
                    seconds=60,
                ),
            )
        },
        parts={"verb_help": "help:"},
        tables={
            "dataset_kinds": {"tpcc": "tables:TPCC"},
            "kind_help": {"tpcc": "help:TABLES"},
        },
    ),
    Feature(
        name="capture",
        package="pgdyno.features.capture",
        verbs={"capture": "Capture your own load in a file, without your data."},
        heading="Data and loads",
        programs={
            "mirror": {
                name: f"mirror.{name}"
                for name in ("load", "recorded", "job", "source", "probe", "answer", "shown")
            },
        },
        parts={"verb_help": "help:"},
        tables={
            "dataset_kinds": {"capture": "tables:CAPTURED"},
            "init_kinds": {"capture": "init_capture:INIT"},
            "kind_help": {"capture": "help:TABLES"},
        },
    ),
    Feature(
        name="crash",
        package="pgdyno.features.crash",
        verbs={"crash": "Show what an acknowledged commit survives."},
        heading="Measure",
        programs={"ledger": {"load": "ledger.load"}},
        parts={"losses": "price:", "verb_help": "help:"},
        tables={
            "dataset_kinds": {"ledger": "ledger.tables:LEDGER"},
            "kind_help": {"ledger": "help:TABLES"},
            "results": {"crash": "result_kind:CRASHES"},
        },
    ),
    Feature(
        name="doctor",
        package="pgdyno.features.doctor",
        verbs={"doctor": "Check host, settings and privileges before you measure."},
        heading="Server",
        parts={"checkup": "checkup:ServerCheckup", "verb_help": "help:"},
    ),
    Feature(
        name="watch",
        package="pgdyno.features.watch",
        needs=("doctor",),
        verbs={"watch": "Observe a server without adding load."},
        heading="Server",
        parts={
            "collectors": "incident.sampled:COLLECTORS",
            "observer_statements": "incident.sampled:statements",
            "peak_seen": "segments:peak_seen",
            "verb_help": "help:",
        },
        tables={"results": {"watch": "result_kind:WATCH"}},
    ),
    Feature(
        name="tune",
        package="pgdyno.features.tune",
        needs=("doctor",),
        verbs={
            "tune": "Find better settings, and prove them.",
            "settings": "Explain and check the settings of a server.",
            "work-mem": "Find how much memory sorts and hashes need.",
        },
        heading="Server",
        parts={"verb_help": "help:", "word_help": "setting_help:about"},
        tables={
            "design_models": {"tune": "spec:TuneDesign"},
            "designs": {"tune": "design_kind:TUNE"},
        },
    ),
    Feature(
        name="hosts",
        package="pgdyno.features.hosts",
        traces=("hosts.json",),
        parts={
            "fleet": "load_hosts:opened",
            "run_doubts": "answer:doubts_of_hosts",
            "run_findings": "answer:findings_of",
            "run_sections": "shown:host_sections",
        },
    ),
    Feature(
        name="nodes",
        package="pgdyno.features.nodes",
        extension="citus",
        traces=("placements", "node_database", "node_waits"),
        parts={
            "charts": "charts:NODES",
            "collectors": "collectors:NODE_COLLECTORS",
            "nodes": "nodes:",
            "nodes_answer": "answer:",
            "observed_nodes": "observed:observed_nodes",
            "observer_statements": "statements:statements",
            "run_doubts": "answer:doubts_of_nodes",
            "sql_collectors": "node_sql:COLLECTORS",
        },
    ),
)
