"""A TPC-C-like run in words that cannot be misread."""

from __future__ import annotations

from dataclasses import replace

from tests.features.tpcc.test_tpcc_findings import findings

from pgdyno.features.tpcc.shown import delivery_words, nopm_words


def test_the_share_of_the_maximum_has_its_interval() -> None:
    words = nopm_words(findings(think=1, warehouses=350))
    assert "100 % (90 to 109) of the most that 350 warehouses can give" in words


def test_a_delivery_that_is_only_queued_is_explained() -> None:
    deferred = replace(findings(), delivered_order_count=1280)
    assert delivery_words(deferred) == "1,280 orders delivered"
    background = replace(deferred.types[3], share=None)
    shown = replace(deferred, types=(*deferred.types, background))
    said = "1,280 orders delivered in the background (the row Delivery has the time to queue them)"
    assert delivery_words(shown) == said
