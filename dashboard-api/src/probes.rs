//! Probes of an orchestrator. Neither asks a store: an outage there must not take every replica of
//! this server out of service, since what is in memory can still be shown.

use crate::app::App;
use crate::error::Error;
use axum::extract::State;

/// Alive as long as it answers.
pub(crate) async fn live() -> &'static str {
    "ok\n"
}

/// Ready once the fleet has been read whole.
pub(crate) async fn ready(State(app): State<App>) -> Result<&'static str, Error> {
    if app.fleet.has_snapshot() {
        Ok("ok\n")
    } else {
        Err(Error::NotReady)
    }
}
