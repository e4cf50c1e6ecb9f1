"""Names of wait events over PostgreSQL versions: which old name is which new one."""

from __future__ import annotations

# PostgreSQL 17 changed the case of many names (WALSync -> WalSync, BufFileRead -> BuffileRead), so
# names are compared in lower case. The names below changed in other ways: in PostgreSQL 13, names
# of locks lost their ending; in 16, "grow" a hash table became "reallocate". The keys are old names
# in lower case.
_RENAMED = {
    "ipc:hashgrowbatchesallocate": "ipc:hashgrowbatchesreallocate",
    "ipc:hashgrowbucketsallocate": "ipc:hashgrowbucketsreallocate",
    "ipc:cloggroupupdate": "ipc:xactgroupupdate",
    "lwlock:walwritelock": "lwlock:walwrite",
    "lwlock:wal_insert": "lwlock:walinsert",
    "lwlock:buffer_content": "lwlock:buffercontent",
    "lwlock:buffer_mapping": "lwlock:buffermapping",
    "lwlock:buffer_io": "ipc:bufferio",
    "lwlock:bufferio": "ipc:bufferio",
    "lwlock:lock_manager": "lwlock:lockmanager",
    "lwlock:procarraylock": "lwlock:procarray",
    "lwlock:xidgenlock": "lwlock:xidgen",
    "lwlock:clog": "lwlock:xactbuffer",
    "lwlock:clogcontrollock": "lwlock:xactslru",
    "lwlock:walbufmappinglock": "lwlock:walbufmapping",
    "lwlock:controlfilelock": "lwlock:controlfile",
    "lwlock:checkpointercommlock": "lwlock:checkpointercomm",
    "lwlock:multixactgenlock": "lwlock:multixactgen",
}


def canonical_event(name: str) -> str:
    """Return the key under which a wait event is the same in every version.

    Args: name, "Type:Event" as in pg_stat_activity; of other names only the case is changed.
    Source: the event names in the binaries of PostgreSQL 15, 16 and 18; the manuals of 12 and 13.
    """
    folded = name.casefold()
    return _RENAMED.get(folded, folded)
