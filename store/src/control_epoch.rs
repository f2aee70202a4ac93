//! The control epoch: the name of one history of revisions.

use crate::audit::{self, NewEntry};
use crate::change::Change;
use crate::config_store::ConfigStore;
use crate::engine::{execute, fetch};
use crate::error::Error;
use crate::random;

impl ConfigStore {
    /// Names this history of revisions. Within one epoch an agent's revision never goes down.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn control_epoch(&self) -> Result<String, Error> {
        let mut session = self.engine.session().await?;
        let (epoch,) = fetch!(&mut session, connection => {
            sqlx::query_as("SELECT epoch FROM control_state WHERE id = 1").fetch_one(connection)
        })?;
        Ok(epoch)
    }

    /// Begins a new control epoch; to be called after the database was restored from a backup, when
    /// revisions that agents have applied may be gone.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Invalid`].
    pub async fn renew_control_epoch(&self, change: &Change) -> Result<String, Error> {
        change.check()?;
        let mut session = self.engine.begin().await?;
        let written = async {
            let epoch = random::identifier();
            execute!(
                &mut session,
                sqlx::query("UPDATE control_state SET epoch = $1 WHERE id = 1").bind(&epoch)
            )?;
            let entry = NewEntry::done("control_epoch.renew", "control_epoch".to_owned(), change)
                .after(serde_json::json!({ "epoch": epoch }));
            audit::append(&mut session, entry).await?;
            Ok(epoch)
        }
        .await;
        session.finish(written).await
    }
}
