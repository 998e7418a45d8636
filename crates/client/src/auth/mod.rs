//! Credentials: who we are, kept fresh.
