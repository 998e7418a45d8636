//! What goes wrong on purpose.

/// What goes wrong on purpose.
#[derive(Clone, Debug, Default)]
pub struct Lab;
