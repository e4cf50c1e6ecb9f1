//! The layer: the disk, its faults, and what each request does to it. `rim` brings the requests.

use std::ffi::OsStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fuser::{Errno, FileAttr, FileType, INodeNo, OpenFlags, RenameFlags, ReplyDirectory};

use crate::model::{Attributes, Disk, Node};

pub(crate) const BLOCK_BYTES: u64 = 4096;

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
pub(crate) struct Layer {
    pub(crate) state: Arc<Mutex<State>>,
}

impl Layer {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Return the state after a stall, or EIO after a cut.
    pub(crate) fn enter(&self) -> Result<MutexGuard<'_, State>, Errno> {
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

    pub(crate) fn add(
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

    pub(crate) fn remove(
        &self,
        parent: INodeNo,
        name: &OsStr,
        is_directory: bool,
    ) -> Result<(), Errno> {
        let mut state = self.enter()?;
        let inode = state.disk.names().get(parent.0, name).ok_or(Errno::ENOENT)?;
        if is_directory && state.disk.names().list(inode).next().is_some() {
            return Err(Errno::ENOTEMPTY);
        }
        state.disk.unlink(parent.0, name);
        Ok(())
    }

    pub(crate) fn resize(&self, inode: u64, size: u64) -> Result<(), Errno> {
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

    pub(crate) fn put(
        &self,
        inode: u64,
        offset: u64,
        bytes: &[u8],
        flags: OpenFlags,
    ) -> Result<u32, Errno> {
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
        // O_SYNC contains O_DSYNC. The kernel's cached path sends a separate fsync, too.
        if flags.0 & libc::O_DSYNC != 0 {
            state.disk.sync_file(inode);
        }
        u32::try_from(bytes.len()).map_err(|_| Errno::EFBIG)
    }

    pub(crate) fn sync(&self, inode: u64, is_directory: bool) -> Result<(), Errno> {
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

    pub(crate) fn allocate(
        &self,
        inode: u64,
        offset: u64,
        length: u64,
        mode: i32,
    ) -> Result<(), Errno> {
        let mut state = self.enter()?;
        let is_full = state.is_full;
        let content = &mut node_mut(&mut state, inode)?.content;
        let size = content.live().len() as u64;
        let end = offset.checked_add(length).ok_or(Errno::EFBIG)?;
        let keeps_size = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
        if is_full && end > size && !keeps_size {
            return Err(Errno::ENOSPC);
        }
        match mode & !libc::FALLOC_FL_KEEP_SIZE {
            0 => {}
            // A hole reads as zeros, so both are a write of zeros.
            libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE => {
                let (from, to) = (offset.min(size) as usize, end.min(size) as usize);
                content.write(from, &vec![0; to - from]);
            }
            _ => {
                log::warn!("fallocate with mode {mode} is not supported");
                return Err(Errno::EOPNOTSUPP);
            }
        }
        if end > size && !keeps_size {
            content.resize(usize::try_from(end).map_err(|_| Errno::EFBIG)?);
        }
        Ok(())
    }

    pub(crate) fn change_name(
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

    pub(crate) fn read_at(&self, inode: u64, offset: u64, size: u32) -> Result<Vec<u8>, Errno> {
        let state = self.enter()?;
        let live = state.disk.node(inode).ok_or(Errno::ENOENT)?.content.live();
        let start = usize::try_from(offset).map_or(live.len(), |offset| offset.min(live.len()));
        let end = live.len().min(start + size as usize);
        Ok(live[start..end].to_vec())
    }

    pub(crate) fn list(
        &self,
        inode: u64,
        offset: u64,
        reply: &mut ReplyDirectory,
    ) -> Result<(), Errno> {
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

pub(crate) fn node_mut(state: &mut State, inode: u64) -> Result<&mut Node, Errno> {
    state.disk.node_mut(inode).ok_or(Errno::ENOENT)
}

pub(crate) fn attr(disk: &Disk, inode: u64) -> Result<FileAttr, Errno> {
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

pub(crate) fn ns(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
