//! Tests of the API server, part by part, from outside.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

mod recording;
mod running;
mod asking;
mod raw_http;

mod admission;
mod auth;
mod autoscaling;
mod builtin;
mod cluster;
mod controllers;
mod custom_definition;
mod custom_object;
mod custom_properties;
mod custom_shown;
mod discovery;
mod early_answers;
mod faults;
mod http;
mod kinds;
mod log;
mod openapi;
mod ownership;
mod patch;
mod protection;
mod protobuf;
mod quotas;
mod server;
mod serving;
mod simulators;
mod storage;
mod weather;
mod weather_switches;
mod web_pages;
