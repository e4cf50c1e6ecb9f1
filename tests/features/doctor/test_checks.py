"""Every check on facts made by hand: in order, doubtful, wrong, and not known."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest
from tests.features.doctor.check_cases import CASES, HOST_ONLY
from tests.features.doctor.machines import (
    ANSWERS,
    GB,
    HOST,
    facts,
    remote,
    server,
    with_settings,
)

from pgdyno.features.doctor.check_facts import CheckFacts, PeakActive
from pgdyno.features.doctor.examine import checks
from pgdyno.features.doctor.finding import Finding, Verdict
from pgdyno.features.doctor.host_facts import Limits

BY_ID = {check.id: check for check in checks()}


def judged(name: str, seen: CheckFacts) -> Finding:
    return BY_ID[name](seen)


@pytest.mark.parametrize(("name", "verdict", "given", "seen"), CASES)
def test_a_check_judges_what_it_sees(
    name: str, verdict: Verdict, given: CheckFacts, seen: str
) -> None:
    finding = judged(name, given)
    assert finding.verdict == verdict, finding
    assert seen in finding.seen, finding
    assert bool(finding.mend) == (verdict in ("warn", "bad")), finding
    assert ": " not in finding.mend, "the page writes 'mend:' before it"
    assert finding.seen.count(": ") < 2, "the page writes the name of the check before it"


def test_every_check_has_a_case_for_good_for_worse_and_for_unknown() -> None:
    tried = defaultdict(set)
    for name, verdict, *_ in CASES:
        tried[name].add(verdict)
    assert tried.keys() == BY_ID.keys()
    for name, verdicts in tried.items():
        assert {"good", "unknown"} <= verdicts, name
        assert verdicts & {"warn", "bad"}, name


def test_no_check_fails_whatever_is_missing() -> None:
    nothing = facts(server=server({}, **dict.fromkeys(ANSWERS)))
    for given in (
        CheckFacts(),
        remote(),
        HOST_ONLY,
        nothing,
        facts(host=HOST, data=None, wal=None),
    ):
        for check in BY_ID.values():
            assert check(given).seen


def test_the_published_rule_counts_what_one_configuration_of_2017_promises() -> None:
    # 2000 connections x 512 MB, 4 GB shared, 2 GB temp_buffers, 2 GB maintenance, on 28 GB.
    settings = {
        "max_connections": "2000",
        "work_mem": "524288 kB",
        "shared_buffers": "524288 8kB",
        "temp_buffers": "262144 8kB",
        "maintenance_work_mem": "2097152 kB",
    }
    seen = facts(server=server(settings), peak=PeakActive(61, "watch #12"))
    rule, peak = judged("memory_rule", seen), judged("memory_at_the_peak", seen)
    assert "2000 connections x 512 MB + 4 GB shared_buffers + 2 GB temp_buffers" in rule.seen
    # 1000 + 4 + 2 + 2 + 1.75 (a sixteenth of 28) GB
    assert "= 1.0 TB, memory 28 GB" in rule.seen
    # 30.5 + 4 + 2 + 2 + 1.75 GB
    assert "61 active (watch #12)" in peak.seen
    assert "= 40 GB, memory 28 GB" in peak.seen
    # (28 - 9.75) GB / 61 / 4 nodes = 76 MB -> 64 MB; 61 x 64 MB + 9.75 GB = 13.6 GB
    assert peak.mend == "ALTER SYSTEM SET work_mem = '64MB' -> 14 GB"


def test_a_limit_of_the_control_group_counts_instead_of_the_hosts_memory() -> None:
    limited = replace(HOST, limits=Limits(memory_bytes=8 * GB))
    assert "memory 8 GB" in judged("memory_rule", facts(host=limited)).seen


def test_a_proposed_work_mem_is_never_more_than_the_present_one() -> None:
    tight = with_settings(max_connections="5000", work_mem="4096 kB", temp_buffers="524288 8kB")
    assert "work_mem = '2MB'" in judged("memory_rule", tight).mend
    none = with_settings(shared_buffers="4000000 8kB")
    assert "use all memory" in judged("memory_rule", none).mend


def test_the_hint_for_temp_buffers_is_never_the_present_value() -> None:
    many = judged("temp_buffers", with_settings(max_connections="9000"))
    assert many.verdict == "bad"
    assert many.mend == "lower max_connections (9000 here), with a pooler if necessary"
    large = judged("temp_buffers", with_settings(temp_buffers="262144 8kB"))
    assert "temp_buffers = '8MB'" in large.mend
