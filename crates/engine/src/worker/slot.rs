//! The memory of a client's transaction. It is reused, so starting a transaction allocates nothing.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Room for one future of a fixed type.
#[derive(Debug)]
pub(super) struct Slot<F>(Pin<Box<Option<F>>>);

impl<F: Future> Slot<F> {
    pub(super) fn new() -> Slot<F> {
        Slot(Box::pin(None))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub(super) fn fill(&mut self, future: F) {
        self.0.set(Some(future));
    }

    /// Drop the running future at its present point.
    pub(super) fn clear(&mut self) {
        self.0.set(None);
    }

    /// Poll the future in the slot; after its end the slot is empty.
    #[inline]
    pub(super) fn poll(&mut self) -> Option<F::Output> {
        // The loop knows which futures to poll, so the waker does nothing.
        let mut context = Context::from_waker(Waker::noop());
        match self.0.as_mut().as_pin_mut()?.poll(&mut context) {
            Poll::Pending => None,
            Poll::Ready(end) => {
                self.0.set(None);
                Some(end)
            }
        }
    }
}
