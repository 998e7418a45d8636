//! Tests of the informer through its public face.

mod script;
mod queue;
mod reflector_initial;
