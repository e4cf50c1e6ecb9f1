"""Load from other hosts, if the command names any: opened and used without knowing how.

The feature in the slot `fleet` makes a `HostFleet`. Without such a feature `--hosts` is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from pgdyno.errors import SpecError
from pgdyno.feature import part
from pgdyno.measure.opening import opened_servers
from pgdyno.measure.run_progress import RunProgress
from pgdyno.measure.servers import HostFleet, Servers
from pgdyno.measure.setup import Setup
from pgdyno.spec.hosts import Hosts, hosts_from

OpenFleet = Callable[[str, RunProgress], AbstractContextManager[HostFleet]]


@contextmanager
def opened_fleet(text: str | None, progress: RunProgress) -> Iterator[HostFleet | None]:
    """Yield the connected load hosts; None if `text` is None.

    Raises: SpecError if the feature is not installed, EngineError if a host cannot be used.
    """
    if text is None:
        yield None
        return
    opens: OpenFleet | None = part("fleet")
    if opens is None:
        raise SpecError(
            f"--hosts {text} needs load from other hosts, which is not installed.",
            hint="leave --hosts out, or install pgdyno with all its features",
        )
    with opens(text, progress) as fleet:
        yield fleet


@contextmanager
def opened_with_hosts(setup: Setup) -> Iterator[Servers]:
    """Yield the servers of an experiment, with its load hosts.

    Raises: as `opened_fleet` and `opened_servers` do.
    """
    with (
        opened_fleet(setup.experiment.workload.hosts, setup.progress) as fleet,
        opened_servers(setup) as servers,
    ):
        servers.fleet = fleet
        yield servers


def asked_hosts(text: str) -> Hosts:
    """Return the load hosts that the option --hosts names. Raises: SpecError with the rule."""
    try:
        return hosts_from(text)
    except ValueError as error:
        hint = "use a,b,c, local:N or tls://SCHEDULER:8786"
        raise SpecError(f"--hosts: {error}.", hint=hint) from None
