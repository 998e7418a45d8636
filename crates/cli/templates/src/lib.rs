//! An operator that runs a Deployment for each __Kind__.

mod controller;
mod resource;

pub use controller::manager;
pub use resource::*;
