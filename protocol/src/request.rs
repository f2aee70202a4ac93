//! Requests: where the model name stands in a body (`locate`), how to send the same body with another
//! name (`rewrite`), what a path means (`route`), and which path, query and headers go upstream
//! (`endpoint`, `query`, `headers`, `passing`, `credentials`, `via`).

pub mod credentials;
pub mod endpoint;
pub mod headers;
pub mod locate;
mod passing;
pub mod query;
pub mod rewrite;
pub mod route;
pub mod via;
