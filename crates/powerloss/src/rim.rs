//! The disk as a FUSE file system. Every answer comes from the model.
//!
//! fsync and fsyncdir must answer here: if a layer leaves them out, the kernel turns every fsync
//! into a success. The write-back cache and passthrough are never asked for, so every write arrives
//! at once and in order. Requests that this file does not know reach fuser's own answers, which are
//! logged; `app` makes a warning record of each.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow,
    WriteFlags,
};

use crate::model::{Attributes, Disk, Node};

/// The kernel may keep names and attributes, because nobody else changes this file system.
const TTL: Duration = Duration::from_secs(3600);
const BLOCK_BYTES: u64 = 4096;
const BLOCK_COUNT: u64 = 1 << 28;

/// The disk, and what it refuses at present.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) disk: Disk,
    pub(crate) is_cut: bool,
    pub(crate) is_full: bool,
    pub(crate) fails_next_fsync: bool,
    pub(crate) stalls_until: Option<Instant>,
    pub(crate) write_count: u64,
    pub(crate) fsync_count: u64,
    pub(crate) directory_fsync_count: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Rim {
    pub(crate) state: Arc<Mutex<State>>,
}

impl Rim {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Return the state after a stall, or EIO after a cut.
    fn enter(&self) -> Result<MutexGuard<'_, State>, Errno> {
        loop {
            let state = self.lock();
            if state.is_cut {
                return Err(Errno::EIO);
            }
            let left = state.stalls_until.map(|end| end.saturating_duration_since(Instant::now()));
            match left {
                Some(left) if !left.is_zero() => {
                    drop(state);
                    std::thread::sleep(left.min(Duration::from_millis(50)));
                }
                _ => return Ok(state),
            }
        }
    }

    fn add(
        &self,
        parent: INodeNo,
        name: &OsStr,
        attributes: Attributes,
    ) -> Result<FileAttr, Errno> {
        let mut state = self.enter()?;
        if state.is_full {
            return Err(Errno::ENOSPC);
        }
        if state.disk.names().get(parent.0, name).is_some() {
            return Err(Errno::EEXIST);
        }
        let inode = state.disk.create(parent.0, name, attributes);
        attr(&state.disk, inode)
    }

    fn remove(&self, parent: INodeNo, name: &OsStr, is_directory: bool) -> Result<(), Errno> {
        let mut state = self.enter()?;
        let inode = state.disk.names().get(parent.0, name).ok_or(Errno::ENOENT)?;
        if is_directory && state.disk.names().list(inode).next().is_some() {
            return Err(Errno::ENOTEMPTY);
        }
        state.disk.unlink(parent.0, name);
        Ok(())
    }

    fn resize(&self, inode: u64, size: u64) -> Result<(), Errno> {
        let mut state = self.enter()?;
        let is_full = state.is_full;
        let node = node_mut(&mut state, inode)?;
        let size = usize::try_from(size).map_err(|_| Errno::EFBIG)?;
        if is_full && size > node.content.live().len() {
            return Err(Errno::ENOSPC);
        }
        node.content.resize(size);
        node.attributes.modified_ns = now_ns();
        Ok(())
    }

    fn put(&self, inode: u64, offset: u64, bytes: &[u8], flags: OpenFlags) -> Result<u32, Errno> {
        let mut state = self.enter()?;
        state.write_count += 1;
        let is_full = state.is_full;
        let node = node_mut(&mut state, inode)?;
        let offset = usize::try_from(offset).map_err(|_| Errno::EFBIG)?;
        if is_full && offset + bytes.len() > node.content.live().len() {
            return Err(Errno::ENOSPC);
        }
        node.content.write(offset, bytes);
        node.attributes.modified_ns = now_ns();
        // O_SYNC contains O_DSYNC. The kernel's cached path sends an fsync of its own as well.
        if flags.0 & libc::O_DSYNC != 0 {
            state.disk.sync_file(inode);
        }
        u32::try_from(bytes.len()).map_err(|_| Errno::EFBIG)
    }

    fn sync(&self, inode: u64, is_directory: bool) -> Result<(), Errno> {
        let mut state = self.enter()?;
        if std::mem::take(&mut state.fails_next_fsync) {
            return Err(Errno::EIO);
        }
        if is_directory {
            state.directory_fsync_count += 1;
            state.disk.sync_directory(inode);
        } else {
            state.fsync_count += 1;
            state.disk.sync_file(inode);
        }
        Ok(())
    }

    fn allocate(&self, inode: u64, offset: u64, length: u64, mode: i32) -> Result<(), Errno> {
        let size = {
            let state = self.enter()?;
            state.disk.node(inode).ok_or(Errno::ENOENT)?.content.live().len() as u64
        };
        let end = offset.checked_add(length).ok_or(Errno::EFBIG)?;
        match mode {
            0 if end > size => self.resize(inode, end),
            0 | libc::FALLOC_FL_KEEP_SIZE => Ok(()),
            _ => {
                log::warn!("fallocate with mode {mode} is not supported");
                Err(Errno::EOPNOTSUPP)
            }
        }
    }

    fn change_name(
        &self,
        old: (u64, &OsStr),
        new: (u64, &OsStr),
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        let mut state = self.enter()?;
        let names = state.disk.names();
        let source = names.get(old.0, old.1).ok_or(Errno::ENOENT)?;
        let target = names.get(new.0, new.1);
        let is_exchange = flags.contains(RenameFlags::RENAME_EXCHANGE);
        if flags.contains(RenameFlags::RENAME_WHITEOUT) {
            return Err(Errno::EINVAL);
        }
        match target {
            Some(_) if flags.contains(RenameFlags::RENAME_NOREPLACE) => return Err(Errno::EEXIST),
            None if is_exchange => return Err(Errno::ENOENT),
            Some(target)
                if !is_exchange && target != source && names.list(target).next().is_some() =>
            {
                return Err(Errno::ENOTEMPTY);
            }
            _ => {}
        }
        state.disk.rename(old, new, is_exchange);
        Ok(())
    }

    fn read_at(&self, inode: u64, offset: u64, size: u32) -> Result<Vec<u8>, Errno> {
        let state = self.enter()?;
        let live = state.disk.node(inode).ok_or(Errno::ENOENT)?.content.live();
        let start = usize::try_from(offset).map_or(live.len(), |offset| offset.min(live.len()));
        let end = live.len().min(start + size as usize);
        Ok(live[start..end].to_vec())
    }

    fn list(&self, inode: u64, offset: u64, reply: &mut ReplyDirectory) -> Result<(), Errno> {
        let state = self.enter()?;
        let own = [(OsStr::new("."), inode), (OsStr::new(".."), inode)];
        let named = state.disk.names().list(inode).map(|(name, child)| (name.as_os_str(), child));
        for (place, (name, child)) in own.into_iter().chain(named).enumerate() {
            let place = place as u64;
            let Some(node) = state.disk.node(child) else { continue };
            let kind = kind(node.attributes.mode);
            if place >= offset && reply.add(INodeNo(child), place + 1, kind, name) {
                break;
            }
        }
        Ok(())
    }
}

impl Filesystem for Rim {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let entry = self.enter().and_then(|state| {
            let inode = state.disk.names().get(parent.0, name).ok_or(Errno::ENOENT)?;
            attr(&state.disk, inode)
        });
        answer_entry(reply, entry);
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.enter().and_then(|state| attr(&state.disk, inode.0)) {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let changed = size.map_or(Ok(()), |size| self.resize(inode.0, size)).and_then(|()| {
            let mut state = self.enter()?;
            let attributes = &mut node_mut(&mut state, inode.0)?.attributes;
            let permissions = mode.unwrap_or(attributes.mode) & 0o7777;
            attributes.mode = attributes.mode & !0o7777 | permissions;
            attributes.uid = uid.unwrap_or(attributes.uid);
            attributes.gid = gid.unwrap_or(attributes.gid);
            match modified {
                Some(TimeOrNow::SpecificTime(time)) => attributes.modified_ns = ns(time),
                Some(TimeOrNow::Now) => attributes.modified_ns = now_ns(),
                None => {}
            }
            attr(&state.disk, inode.0)
        });
        match changed {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(error) => reply.error(error),
        }
    }

    fn readlink(&self, _: &Request, inode: INodeNo, reply: ReplyData) {
        answer_bytes(reply, self.read_at(inode.0, 0, u32::MAX));
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let attributes = Attributes { rdev, ..attributes(request, mode & !umask) };
        answer_entry(reply, self.add(parent, name, attributes));
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let attributes = attributes(request, libc::S_IFDIR | (mode & 0o7777 & !umask));
        answer_entry(reply, self.add(parent, name, attributes));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(reply, self.remove(parent, name, false));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(reply, self.remove(parent, name, true));
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let added = self.add(parent, name, attributes(request, libc::S_IFLNK | 0o777)).and_then(
            |attr_of_link| {
                let mut state = self.enter()?;
                let node = node_mut(&mut state, attr_of_link.ino.0)?;
                // The target of a link survives if its name does.
                node.content.write(0, target.as_os_str().as_bytes());
                node.content.sync(0);
                attr(&state.disk, attr_of_link.ino.0)
            },
        );
        answer_entry(reply, added);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        answer(reply, self.change_name((parent.0, name), (new_parent.0, new_name), flags));
    }

    fn link(&self, _: &Request, inode: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let linked = self.enter().and_then(|mut state| {
            state.disk.link(inode.0, parent.0, name);
            attr(&state.disk, inode.0)
        });
        answer_entry(reply, linked);
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.enter() {
            // The kernel may keep its pages from the last opening: nobody else changes the file.
            Ok(_) => reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE),
            Err(error) => reply.error(error),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let attributes = attributes(request, libc::S_IFREG | (mode & 0o7777 & !umask));
        match self.add(parent, name, attributes) {
            Ok(attr) => {
                let flags = FopenFlags::FOPEN_KEEP_CACHE;
                reply.created(&TTL, &attr, Generation(0), FileHandle(0), flags);
            }
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        answer_bytes(reply, self.read_at(inode.0, offset, size));
    }

    fn write(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        bytes: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.put(inode.0, offset, bytes, flags) {
            Ok(count) => reply.written(count),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        answer(reply, self.enter().map(drop));
    }

    fn fsync(&self, _: &Request, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(reply, self.sync(inode.0, false));
    }

    fn fsyncdir(&self, _: &Request, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(reply, self.sync(inode.0, true));
    }

    fn readdir(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        match self.list(inode.0, offset, &mut reply) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let free = if self.lock().is_full { 0 } else { BLOCK_COUNT / 2 };
        let block = BLOCK_BYTES as u32;
        reply.statfs(BLOCK_COUNT, free, free, 1 << 30, 1 << 29, block, 255, block);
    }

    fn getxattr(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, reply: ReplyXattr) {
        reply.error(Errno::EOPNOTSUPP);
    }

    fn fallocate(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        answer(reply, self.allocate(inode.0, offset, length, mode));
    }
}

fn node_mut(state: &mut State, inode: u64) -> Result<&mut Node, Errno> {
    state.disk.node_mut(inode).ok_or(Errno::ENOENT)
}

fn answer(reply: ReplyEmpty, result: Result<(), Errno>) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

fn answer_entry(reply: ReplyEntry, result: Result<FileAttr, Errno>) {
    match result {
        Ok(attr) => reply.entry(&TTL, &attr, Generation(0)),
        Err(error) => reply.error(error),
    }
}

fn answer_bytes(reply: ReplyData, result: Result<Vec<u8>, Errno>) {
    match result {
        Ok(bytes) => reply.data(&bytes),
        Err(error) => reply.error(error),
    }
}

fn attributes(request: &Request, mode: u32) -> Attributes {
    Attributes { mode, uid: request.uid(), gid: request.gid(), rdev: 0, modified_ns: now_ns() }
}

fn attr(disk: &Disk, inode: u64) -> Result<FileAttr, Errno> {
    let node = disk.node(inode).ok_or(Errno::ENOENT)?;
    let time = UNIX_EPOCH + Duration::from_nanos(node.attributes.modified_ns);
    let size = node.content.live().len() as u64;
    Ok(FileAttr {
        ino: INodeNo(inode),
        size,
        blocks: size.div_ceil(512),
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind: kind(node.attributes.mode),
        perm: (node.attributes.mode & 0o7777) as u16,
        nlink: node.link_count,
        uid: node.attributes.uid,
        gid: node.attributes.gid,
        rdev: node.attributes.rdev,
        blksize: BLOCK_BYTES as u32,
        flags: 0,
    })
}

fn kind(mode: u32) -> FileType {
    match mode & libc::S_IFMT {
        libc::S_IFDIR => FileType::Directory,
        libc::S_IFLNK => FileType::Symlink,
        libc::S_IFIFO => FileType::NamedPipe,
        libc::S_IFSOCK => FileType::Socket,
        _ => FileType::RegularFile,
    }
}

pub(crate) fn now_ns() -> u64 {
    ns(SystemTime::now())
}

fn ns(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
