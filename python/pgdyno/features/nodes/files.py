"""The files of a node's kernel, which its server reads for us."""

from __future__ import annotations

from pgdyno.clock import monotonic_ns
from pgdyno.observe.collector import NotMeasurable
from pgdyno.observe.host.files import ReceivedFiles
from pgdyno.observe.session import ServerSession

_READ = "pg_catalog.pg_read_file(text,bigint,bigint,boolean)"
_LIST = "pg_catalog.pg_ls_dir(text,boolean,boolean)"
RIGHT_SQL = (
    f"SELECT (has_function_privilege('{_READ}', 'EXECUTE') AND pg_has_role('pg_read_server_files',"
    f" 'MEMBER'))::int, has_function_privilege('{_LIST}', 'EXECUTE')::int"
)
_PATHS = (
    *("/proc/stat", "/proc/loadavg", "/proc/meminfo", "/proc/diskstats"),
    *("/proc/net/dev", "/proc/net/snmp", "/proc/net/netstat"),
    *("/proc/pressure/cpu", "/proc/pressure/memory", "/proc/pressure/io"),
)
FILES_SQL = (
    "SELECT path, pg_catalog.pg_read_file(path, 0, 262144, true) FROM"
    f" unnest(ARRAY[{', '.join(map(repr, _PATHS))}]) path"
)
DISKS_SQL = (
    "SELECT '/sys/block/' || name, '' FROM pg_catalog.pg_ls_dir('/sys/block', true, false) name"
)
# Collectors whose samples are due at the same time share one reading.
_AGE_NS_MAX = 300_000_000


class NodeFiles(ReceivedFiles):
    """The files of one node; all are read at once, again if they are older than 0.3 s.

    Every method raises NotMeasurable if the role may not read them. Without that right nothing is
    tried, because each try would be an error in the log of the node.
    """

    def __init__(self, session: ServerSession) -> None:
        super().__init__()
        self._session = session
        self._read_ns = 0
        self._disks: dict[str, str] | None = None

    def text(self, path: str) -> str:
        """Return a file's text."""
        self._refresh()
        return super().text(path)

    def exists(self, path: str) -> bool:
        """Return whether there is such a file or folder."""
        self._refresh()
        return super().exists(path)

    def matching(self, pattern: str) -> list[str]:
        """Return the paths that match, in order."""
        self._refresh()
        return super().matching(pattern)

    def _refresh(self) -> None:
        if monotonic_ns() - self._read_ns < _AGE_NS_MAX:
            return
        if self._disks is None:
            [(may_read, may_list)] = self._session.fetch(RIGHT_SQL)
            if not may_read:
                raise NotMeasurable(
                    "The role cannot read /proc on the nodes, so the processors, memory and disks"
                    " of their hosts are not known. Superusers can; else, on each node: GRANT"
                    " EXECUTE ON FUNCTION pg_catalog.pg_read_file(text, bigint, bigint, boolean),"
                    " and GRANT pg_read_server_files."
                )
            self._disks = dict(self._session.fetch(DISKS_SQL)) if may_list else {}
        read = self._session.fetch_often(FILES_SQL)
        self.by_path = {path: text for path, text in read if text is not None} | self._disks
        self._read_ns = monotonic_ns()
