//! Where a client's transaction lies: memory that is used again, so that starting one allocates
//! nothing.

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

    /// Drop what runs, where it stands.
    pub(super) fn clear(&mut self) {
        self.0.set(None);
    }

    /// Go on with what is in the slot; when it ends, the slot is empty again.
    #[inline]
    pub(super) fn poll(&mut self) -> Option<F::Output> {
        // The loop knows whom to poll: no future asks to be woken.
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
