"""Opens the load hosts of an experiment, if it names any; without them, Dask is not needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import IO, TYPE_CHECKING

from pgdyno.clock import ClockPair
from pgdyno.engine.job import Job
from pgdyno.errors import SpecError
from pgdyno.measure.opening import opened_servers
from pgdyno.measure.run_progress import Progress
from pgdyno.measure.servers import Servers
from pgdyno.measure.under_test import Conditions
from pgdyno.spec.experiment import Experiment
from pgdyno.spec.hosts import Hosts, hosts_from

if TYPE_CHECKING:
    from pgdyno.features.hosts.fleet import Fleet
    from pgdyno.features.hosts.run import HostsRun


@contextmanager
def opened_with_hosts(
    experiment: Experiment, conditions: Conditions, progress: Progress
) -> Iterator[Servers]:
    """Yield the servers of an experiment, with its load hosts.

    Raises: as `opened_fleet` and `opened_servers` do.
    """
    with (
        opened_fleet(experiment.workload.hosts, progress) as fleet,
        opened_servers(experiment, conditions, progress) as servers,
    ):
        servers.fleet = fleet
        yield servers


@contextmanager
def opened_fleet(text: str | None, progress: Progress) -> Iterator[Fleet | None]:
    """Yield the connected load hosts; None if `text` is None.

    Raises: SpecError if the extra is not installed, EngineError if a host cannot be used.
    """
    if text is None:
        yield None
        return
    if find_spec("distributed") is None or find_spec("cryptography") is None:
        raise SpecError(
            f"--hosts {text} needs the packages of the extra hosts, which are not installed.",
            hint="pip install 'pgdyno[hosts]'",
        )
    from pgdyno.features.hosts.starting import end_workers, start_workers

    asked = asked_hosts(text)
    hosts = start_workers(asked)
    try:
        # Dask needs a second, and so do the workers, at the same time.
        from pgdyno.features.hosts.fleet import Fleet
    except BaseException:
        end_workers(hosts)
        raise
    with Fleet(asked, hosts) as fleet:
        progress.said(f"load hosts: {', '.join(host.name for host in fleet.hosts)}")
        yield fleet


def asked_hosts(text: str) -> Hosts:
    """Return the load hosts that the option --hosts names. Raises: SpecError with the rule."""
    try:
        return hosts_from(text)
    except ValueError as error:
        hint = "use a,b,c, local:N or tls://SCHEDULER:8786"
        raise SpecError(f"--hosts: {error}.", hint=hint) from None


def load_on_hosts(fleet: Fleet, job: Job, clock: ClockPair, *, log: IO[bytes]) -> HostsRun:
    """Return the load of one run on all hosts, which share the threads of the job."""
    from pgdyno.features.hosts.run import HostsRun

    return HostsRun(fleet, job, clock, log=log)
