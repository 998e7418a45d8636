//! A limit of the memory that lists take which have not been sent.
//!
//! The size of a list is known when its objects have been selected, and before they are encoded. A
//! list for which there is no memory waits without its objects.

use std::sync::Arc;
use std::time::Duration;

use dogwatch_core::{Details, Reason, Status};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::ApiError;

/// The number of bytes of one permit.
const UNIT: usize = 1024;

/// The part of the memory that one list gets at most is the memory divided by this. A larger list
/// takes more than its share, and leaves the others room.
const SHARES: usize = 4;

/// A limit of the memory that lists take which have not been sent. Clones share it.
#[derive(Clone, Debug)]
pub struct ListMemory {
    free: Arc<Semaphore>,
    /// The maximum number of permits of one list.
    largest: u32,
    wait: Duration,
}

/// The memory that one list takes. It is given back when this is dropped.
#[derive(Debug)]
pub struct ListShare(OwnedSemaphorePermit);

impl ListMemory {
    /// Creates a limit of this number of bytes. A list that does not fit waits for this time, and
    /// is then rejected with 429.
    pub fn new(bytes: usize, wait: Duration) -> Self {
        let permits = bytes.div_ceil(UNIT).min(Semaphore::MAX_PERMITS);
        let largest = u32::try_from(permits / SHARES).unwrap_or(u32::MAX);
        Self { free: Arc::new(Semaphore::new(permits)), largest, wait }
    }

    /// Returns the number of bytes that no list takes.
    pub fn available(&self) -> usize {
        self.free.available_permits().saturating_mul(UNIT)
    }

    /// Takes the memory of a list of this number of bytes, if there is enough now.
    pub fn try_take(&self, bytes: usize) -> Option<ListShare> {
        Arc::clone(&self.free).try_acquire_many_owned(self.permits(bytes)).ok().map(ListShare)
    }

    /// Waits for the memory of a list of this number of bytes, and takes it.
    ///
    /// # Errors
    ///
    /// Returns 429 if there is not enough in time.
    pub(super) async fn take(&self, bytes: usize) -> Result<ListShare, ApiError> {
        let taking = Arc::clone(&self.free).acquire_many_owned(self.permits(bytes));
        match tokio::time::timeout(self.wait, taking).await {
            Ok(Ok(permit)) => Ok(ListShare(permit)),
            // It is never closed.
            Ok(Err(_)) | Err(_) => Err(full()),
        }
    }

    fn permits(&self, bytes: usize) -> u32 {
        permits(bytes).min(self.largest)
    }
}

impl ListShare {
    /// Gives back all but this number of bytes.
    pub fn keep(&mut self, bytes: usize) {
        let surplus = self.0.num_permits().saturating_sub(permits(bytes) as usize);
        drop(self.0.split(surplus));
    }
}

fn permits(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX)
}

fn full() -> ApiError {
    let message = "as many lists are being sent as there is memory for; try again, or read smaller pages";
    let mut status = Status::failure(Reason::TooManyRequests, message);
    status.details = Some(Details { retry_after_seconds: 1, ..Details::default() });
    ApiError(Box::new(status))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn a_large_list_takes_a_quarter_and_leaves_room_for_others() {
        let memory = ListMemory::new(1 << 20, WAIT);
        let large: Vec<_> = (0..3).map(|_| memory.try_take(usize::MAX).expect("a quarter")).collect();
        assert_eq!(memory.available(), 256 << 10);
        let mut small = memory.try_take(100 << 10).expect("small");
        small.keep(10);
        assert_eq!(memory.available(), 255 << 10);
        assert!(memory.try_take(usize::MAX).is_none());
        drop((small, large));
        assert_eq!(memory.available(), 1 << 20);
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_waits_for_memory_and_is_then_rejected() {
        let memory = ListMemory::new(4 << 10, WAIT);
        let mut taken: Vec<_> = (0..4).map(|_| memory.try_take(1 << 10).expect("free")).collect();
        let refusal = memory.take(1).await.expect_err("nothing is free");
        let seconds = refusal.0.details.as_ref().map(|it| it.retry_after_seconds);
        assert_eq!((refusal.0.code, seconds), (429, Some(1)));
        let release = async {
            tokio::time::sleep(WAIT / 2).await;
            taken.pop();
        };
        let (share, ()) = tokio::join!(memory.take(1), release);
        assert!(share.is_ok());
    }
}
