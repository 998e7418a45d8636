//! Trust and identity: rustls configurations that follow their files.
