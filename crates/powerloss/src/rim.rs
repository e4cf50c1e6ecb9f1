//! The disk as a FUSE file system. Every answer comes from the model.
//!
//! fsync and fsyncdir must answer here: if a layer leaves them out, the kernel turns every fsync
//! into a success. The write-back cache and passthrough are never asked for, so every write arrives
//! at once and in order. Requests that this file does not know reach fuser's own answers, which are
//! logged; `app` makes a warning record of each.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    IoctlFlags, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyOpen, ReplyStatfs, ReplyWrite,
    ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use crate::layer::{BLOCK_BYTES, Layer, attr, node_mut, now_ns, ns};
use crate::model::Attributes;

/// The kernel may keep names and attributes, because nobody else changes this file system.
const TTL: Duration = Duration::from_secs(3600);
const BLOCK_COUNT: u64 = 1 << 28;

impl Filesystem for Layer {
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

    /// cp sets an empty access list; this file system has none.
    fn setxattr(
        &self,
        _: &Request,
        _: INodeNo,
        _: &OsStr,
        _: &[u8],
        _: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::EOPNOTSUPP);
    }

    /// Programs ask with ioctl whether a file is a disk; it is not.
    fn ioctl(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        _: u32,
        _: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        reply.error(Errno::ENOTTY);
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
