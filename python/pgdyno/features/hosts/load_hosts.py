"""Opens the load hosts that `--hosts` names; without them, Dask is not needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pgdyno.errors import SpecError
from pgdyno.measure.fleet import asked_hosts
from pgdyno.measure.run_progress import RunProgress

if TYPE_CHECKING:
    from pgdyno.features.hosts.fleet import Fleet


@contextmanager
def opened(text: str, progress: RunProgress) -> Iterator[Fleet]:
    """Yield the connected load hosts.

    Raises: SpecError if the extra is not installed, EngineError if a host cannot be used.
    """
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
