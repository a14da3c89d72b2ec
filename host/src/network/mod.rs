//! The way to BCS: callbacks out of the store's outbox, tried until they are taken or given up.

mod bcs;
mod courier;
mod credentials;
mod hold;
mod outbox;
mod retry;
mod waiting;

#[cfg(test)]
mod tests;

pub use self::bcs::{BcsClient, InvalidSetting, Tried};
pub use self::credentials::Credentials;
pub use self::hold::AckHold;
pub use self::outbox::{Options, Outbox, OutboxHandle};
pub use self::retry::{Attempt, decide};

/// Makes ring the cryptography of TLS in this process; more than once does no harm.
pub fn install_crypto() {
    // An error says that one is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
