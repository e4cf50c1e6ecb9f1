"""Names of wait events over PostgreSQL versions: which old name is which new one."""

from __future__ import annotations

# PostgreSQL 17 changed the case of many names (WALSync -> WalSync, BufFileRead -> BuffileRead), so
# names are compared in lower case. These names changed in other ways (in 13 locks lost their
# ending, in 16 growing a hash table became reallocating). The keys are old names in lower case.
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

    Args: name, "Type:Event" as pg_stat_activity gives it; other names come back folded.
    Source: the event names of PostgreSQL 15, 16 and 18 binaries compared; the manuals of 12, 13.
    """
    folded = name.casefold()
    return _RENAMED.get(folded, folded)
