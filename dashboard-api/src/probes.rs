//! Probes of an orchestrator. Neither asks a store: an outage there must not take every replica of
//! this server out of service, since what is in memory can still be shown.

use crate::app::App;
use axum::extract::State;
use http::StatusCode;

/// Alive as long as it answers.
pub(crate) async fn live() -> &'static str {
    "ok\n"
}

/// Ready once the fleet has been read whole.
pub(crate) async fn ready(State(app): State<App>) -> (StatusCode, &'static str) {
    if app.fleet.has_picture() {
        (StatusCode::OK, "ok\n")
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "the fleet has not been read yet\n",
        )
    }
}
