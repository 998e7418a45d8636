//! What was asked.

/// What was asked.
#[derive(Clone, Debug, Default)]
pub struct RequestLog;
