//! Tests of the informer through its public face.

mod script;
mod queue;
mod reflector_initial;
mod reflector_list;
mod reflector_watch;
mod reflector_poison;
mod reflector_health;
mod reflector_life;
mod reflector_property;
mod reflector_served;
mod scenarios;
