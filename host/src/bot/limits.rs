//! What a guest may use. A refusal is remembered, so that the error can name the limit, its value and its setting.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use wasmtime::ResourceLimiter;

use super::call::Limits;

/// Core instances in one component's instance: large ones of interpreters have some tens.
const INSTANCES: usize = 1_000;

/// Tables and memories in one component's instance.
const TABLES: usize = 1_000;

/// A limit that was hit, as a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LimitHit(String);

impl LimitHit {
    /// `what` is what the bot did, like `The bot asked for 5 bytes of memory`.
    pub(super) fn new(what: &str, value: usize, unit: &str, setting: &str) -> Self {
        Self(format!("{what}: the limit is {value} {unit}, set by `{setting}`."))
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }
}

/// The memory that all guests of the process share.
#[derive(Debug)]
pub struct MemoryBudget {
    limit: usize,
    used: AtomicUsize,
}

impl MemoryBudget {
    /// A budget of so many bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { limit, used: AtomicUsize::new(0) }
    }

    /// The bytes in use.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: usize) -> bool {
        self.used
            .try_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(bytes).filter(|sum| *sum <= self.limit)
            })
            .is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Watches one instance's memories and tables.
pub(super) struct Limiter {
    budget: Arc<MemoryBudget>,
    memory_bytes: usize,
    memory_used: usize,
    table_elements: usize,
    table_used: usize,
    refusal: Option<LimitHit>,
    /// Whether the refusal was for want of memory in the whole host.
    budget_refused: bool,
}

impl Limiter {
    pub(super) fn new(limits: &Limits, budget: Arc<MemoryBudget>) -> Self {
        Self {
            budget,
            memory_bytes: limits.memory_bytes,
            memory_used: 0,
            table_elements: limits.table_elements,
            table_used: 0,
            refusal: None,
            budget_refused: false,
        }
    }

    /// The most memory so far: memories never shrink.
    pub(super) fn memory_peak(&self) -> usize {
        self.memory_used
    }

    /// The last refusal. The guest may have lived with it; if it ended badly afterwards, this is why.
    pub(super) fn take_refusal(&mut self) -> Option<LimitHit> {
        self.refusal.take()
    }

    /// Whether the host had no memory left, whatever the guest's own limit.
    pub(super) fn host_was_full(&self) -> bool {
        self.budget_refused
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            // The memory's own maximum: wasmtime refuses it, so there is nothing to count.
            return Ok(true);
        }
        let more = desired.saturating_sub(current);
        let total = self.memory_used.saturating_add(more);
        if total > self.memory_bytes {
            let what = format!("The bot asked for {total} bytes of memory");
            self.refusal = Some(LimitHit::new(&what, self.memory_bytes, "bytes", "limits.memory_mb"));
            return Ok(false);
        }
        if !self.budget.take(more) {
            let what = format!("The bot asked for {more} more bytes of memory, which all bots together have used up");
            self.refusal = Some(LimitHit::new(&what, self.budget.limit, "bytes", "limits.guest_memory_mb"));
            self.budget_refused = true;
            return Ok(false);
        }
        self.memory_used = total;
        Ok(true)
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(true);
        }
        let total = self.table_used.saturating_add(desired.saturating_sub(current));
        if total > self.table_elements {
            let what = format!("The bot asked for {total} table elements");
            self.refusal = Some(LimitHit::new(&what, self.table_elements, "elements", "limits.table_elements"));
            return Ok(false);
        }
        self.table_used = total;
        Ok(true)
    }

    fn instances(&self) -> usize {
        INSTANCES
    }

    fn tables(&self) -> usize {
        TABLES
    }

    fn memories(&self) -> usize {
        TABLES
    }
}

impl Drop for Limiter {
    fn drop(&mut self) {
        self.budget.give_back(self.memory_used);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    const PAGE: usize = 64 * 1024;

    fn limiter(limit: usize, budget: &Arc<MemoryBudget>) -> Limiter {
        Limiter::new(&Limits { memory_bytes: limit, table_elements: 10, ..Limits::default() }, budget.clone())
    }

    #[test]
    fn all_memories_of_an_instance_count_together() {
        let budget = Arc::new(MemoryBudget::new(usize::MAX));
        let mut limiter = limiter(3 * PAGE, &budget);
        assert!(limiter.memory_growing(0, 2 * PAGE, None).unwrap());
        assert!(limiter.memory_growing(0, PAGE, None).unwrap());
        assert!(!limiter.memory_growing(PAGE, 2 * PAGE, None).unwrap());
        let text = limiter.take_refusal().unwrap().into_text();
        assert_eq!(
            text,
            "The bot asked for 262144 bytes of memory: the limit is 196608 bytes, set by `limits.memory_mb`."
        );
        assert_eq!(limiter.memory_peak(), 3 * PAGE);
    }

    #[test]
    fn a_memorys_own_maximum_is_no_hit() {
        let budget = Arc::new(MemoryBudget::new(usize::MAX));
        let mut limiter = limiter(PAGE, &budget);
        assert!(limiter.memory_growing(0, 2 * PAGE, Some(PAGE)).unwrap());
        assert!(limiter.take_refusal().is_none());
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn the_budget_is_shared_and_comes_back() {
        let budget = Arc::new(MemoryBudget::new(2 * PAGE));
        let mut first = limiter(10 * PAGE, &budget);
        let mut second = limiter(10 * PAGE, &budget);
        assert!(first.memory_growing(0, 2 * PAGE, None).unwrap());
        assert!(!second.memory_growing(0, PAGE, None).unwrap());
        assert!(second.take_refusal().unwrap().into_text().contains("limits.guest_memory_mb"));
        assert!(second.host_was_full());
        drop(first);
        assert_eq!(budget.used(), 0);
        assert!(second.memory_growing(0, PAGE, None).unwrap());
    }

    #[test]
    fn tables_count_together() {
        let budget = Arc::new(MemoryBudget::new(0));
        let mut limiter = limiter(0, &budget);
        assert!(limiter.table_growing(0, 10, None).unwrap());
        assert!(!limiter.table_growing(0, 1, None).unwrap());
        assert!(limiter.take_refusal().unwrap().into_text().contains("limits.table_elements"));
    }
}
