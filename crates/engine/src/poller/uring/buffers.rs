//! The receive buffers of a ring, shared by all connections. The kernel takes one when bytes come.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::Submitter;
use io_uring::types::BufRingEntry;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Number of buffers: more than the kernel fills in one call. If none is left, the receive ends and
/// is armed again.
const COUNT: u16 = 256;
const BYTES: usize = 4096;
/// Distance of two buffers: a cache line more than a power of two. Short replies only touch the
/// beginnings of the buffers, which then fall into different sets of the cache.
const STRIDE: usize = BYTES + 64;
const RING_BYTES: usize = COUNT as usize * size_of::<BufRingEntry>();
const MAPPED_BYTES: usize = RING_BYTES + COUNT as usize * STRIDE;

/// The kernel's number for the group of buffers.
pub(super) const GROUP: u16 = 0;

/// One mapping: the ring of free buffers that the kernel reads, then the buffers.
#[derive(Debug)]
pub(super) struct Buffers {
    mapped: NonNull<u8>,
    tail: u16,
}

impl Buffers {
    /// Map the buffers and register them with the ring of `submitter`.
    pub(super) fn register(submitter: &Submitter<'_>) -> io::Result<Buffers> {
        let flags = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: the kernel chooses the address of the new mapping, so it overlaps no other
        // memory.
        let mapped =
            unsafe { mmap_anonymous(std::ptr::null_mut(), MAPPED_BYTES, flags.0, flags.1) }?;
        let mapped = NonNull::new(mapped.cast()).expect("the kernel maps nothing at 0");
        let mut buffers = Buffers { mapped, tail: 0 };
        let address = buffers.mapped.as_ptr() as u64;
        // SAFETY: the mapping begins with a page-aligned, zeroed ring of COUNT entries. It exists
        // longer than the ring that uses it: see the order of `Uring`'s fields.
        unsafe { submitter.register_buf_ring_with_flags(address, COUNT, GROUP, 0) }?;
        (0..COUNT).for_each(|id| buffers.give_back(id));
        Ok(buffers)
    }

    /// Return the first `length` bytes of a buffer that the kernel has filled.
    #[inline]
    pub(super) fn filled(&self, id: u16, length: usize) -> &[u8] {
        assert!(id < COUNT && length <= BYTES, "the kernel fills buffers it was given");
        // SAFETY: the bytes are within the mapping. The kernel does not write to the buffer until
        // it is given back, which needs `&mut self`.
        unsafe { std::slice::from_raw_parts(self.place(id), length) }
    }

    /// Give a buffer back to the kernel, which may fill it again.
    #[inline]
    pub(super) fn give_back(&mut self, id: u16) {
        let ring = self.mapped.as_ptr().cast::<BufRingEntry>();
        // SAFETY: the entry at the tail belongs to us until the tail moves.
        unsafe {
            let entry = &mut *ring.add(usize::from(self.tail % COUNT));
            entry.set_addr(self.place(id) as u64);
            entry.set_len(BYTES as u32);
            entry.set_bid(id);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: `ring` is the address of the first entry, and its tail is aligned to two bytes.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(ring).cast_mut()) };
        // Subtle: the entry is written before the tail moves past it, so the kernel sees it whole.
        tail.store(self.tail, Ordering::Release);
    }

    fn place(&self, id: u16) -> *mut u8 {
        // SAFETY: the address is within the mapping, because ids are below COUNT.
        unsafe { self.mapped.as_ptr().add(RING_BYTES + usize::from(id) * STRIDE) }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to us, and the ring that used it is closed.
        let _ = unsafe { munmap(self.mapped.as_ptr().cast(), MAPPED_BYTES) };
    }
}
