//! The tests of the ingress manager in one program: linking each file as a program of its own takes
//! longer than running it.

mod behind_proxy;
mod conformance;
mod it;
mod permissions;
