//! Receive buffers that all connections of a ring share: the kernel takes one when bytes came.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::Submitter;
use io_uring::types::BufRingEntry;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// More than the kernel fills in one call; the kernel learns when none is left, and waits.
const COUNT: u16 = 256;
const BYTES: usize = 4096;
/// A cache line more than a power of two: short replies touch the beginnings of the buffers only,
/// and those shall not compete for the same sets of the cache.
const STRIDE: usize = BYTES + 64;
const RING_BYTES: usize = COUNT as usize * size_of::<BufRingEntry>();
const MAPPED_BYTES: usize = RING_BYTES + COUNT as usize * STRIDE;

/// The number under which the kernel knows them.
pub(super) const GROUP: u16 = 0;

/// One mapping: the ring of free buffers that the kernel reads, then the buffers.
#[derive(Debug)]
pub(super) struct Buffers {
    mapped: NonNull<u8>,
    tail: u16,
}

impl Buffers {
    /// Make them known to the ring of `submitter`.
    pub(super) fn register(submitter: &Submitter<'_>) -> io::Result<Buffers> {
        let flags = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping at an address that the kernel chooses.
        let mapped =
            unsafe { mmap_anonymous(std::ptr::null_mut(), MAPPED_BYTES, flags.0, flags.1) }?;
        let mapped = NonNull::new(mapped.cast()).expect("the kernel maps nothing at 0");
        let mut buffers = Buffers { mapped, tail: 0 };
        let address = buffers.mapped.as_ptr() as u64;
        // SAFETY: the mapping begins with a page-aligned ring of COUNT entries, zeroed, and is kept
        // until the ring that uses it is gone: see the order of `Uring`'s fields.
        unsafe { submitter.register_buf_ring_with_flags(address, COUNT, GROUP, 0) }?;
        (0..COUNT).for_each(|id| buffers.give_back(id));
        Ok(buffers)
    }

    /// The first `length` bytes of a buffer that the kernel filled.
    #[inline]
    pub(super) fn filled(&self, id: u16, length: usize) -> &[u8] {
        assert!(id < COUNT && length <= BYTES, "the kernel fills buffers it was given");
        // SAFETY: within the mapping; the kernel does not write to it until it is given back.
        unsafe { std::slice::from_raw_parts(self.place(id), length) }
    }

    /// Let the kernel fill a buffer again.
    #[inline]
    pub(super) fn give_back(&mut self, id: u16) {
        let ring = self.mapped.as_ptr().cast::<BufRingEntry>();
        // SAFETY: the entry at the tail is ours until the tail is moved.
        unsafe {
            let entry = &mut *ring.add(usize::from(self.tail % COUNT));
            entry.set_addr(self.place(id) as u64);
            entry.set_len(BYTES as u32);
            entry.set_bid(id);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: `ring` is the address of the first entry, whose tail is aligned to two bytes.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(ring).cast_mut()) };
        // Subtle: the kernel must see the entry before it sees the tail beyond it.
        tail.store(self.tail, Ordering::Release);
    }

    fn place(&self, id: u16) -> *mut u8 {
        // SAFETY: within the mapping, as ids are below COUNT.
        unsafe { self.mapped.as_ptr().add(RING_BYTES + usize::from(id) * STRIDE) }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and the ring that used it is gone.
        let _ = unsafe { munmap(self.mapped.as_ptr().cast(), MAPPED_BYTES) };
    }
}
