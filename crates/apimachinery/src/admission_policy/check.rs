//! The validation of policies, bindings and match conditions when they are written.
