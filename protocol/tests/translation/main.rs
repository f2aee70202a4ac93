//! Translation between dialects, from one wire format to the other: the public field reports, each as
//! a test, and what must hold of every pair.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed step of a test is a failed test"
)]

mod blocks;
mod chat_to_responses;
mod cohere;
mod corpus;
mod embeddings;
mod harness;
mod page;
mod properties;
mod responses_to_chat;
mod streams;
