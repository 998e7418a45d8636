//! The client, from outside.

mod scripted;

mod lists;
mod request_building;
mod request_results;
mod request_retries;
mod watches;
mod writes;
