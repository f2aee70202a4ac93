//! Gateways from files: what a folder holds is written as revisions, as a person would.
//!
//! The database stays the truth for agents. A file is written when it differs from what was last
//! written from it, so a revision that a rollout took back is not pushed again and again: change the
//! file. A file that goes leaves its gateway as it is, for the API to change or delete.

mod folder;

use self::folder::{Contents, Texts};
use super::config::current;
use super::empty::Emptying;
use crate::app::App;
use crate::clock;
use crate::error::Error;
use lanekeeper_model::{Checked, content_hash};
use lanekeeper_store::Change;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Who the history says wrote these revisions.
const AUTHOR: &str = "documents folder";
/// Pause between two looks at the folder. The kubelet takes a minute to change a mounted ConfigMap.
const INTERVAL: Duration = Duration::from_secs(2);
/// Revisions looked through for the last one from the folder.
const LOOK_BACK: u32 = 20;

/// Keeps gateways as the folder says, until the server ends.
pub(crate) async fn follow(app: App) {
    let mut follower = Follower::default();
    loop {
        follower.step(&app).await;
        tokio::select! {
            () = app.closing.cancelled() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
    }
}

/// What was seen at the last look.
#[derive(Default)]
struct Follower {
    texts: Option<Texts>,
    contents: Arc<Contents>,
    /// The last thing that was logged about each file or gateway.
    said: BTreeMap<String, String>,
}

impl Follower {
    async fn step(&mut self, app: &App) {
        let Some(folder) = app.managed.folder().cloned() else {
            return;
        };
        let texts = tokio::task::spawn_blocking(move || folder::read(&folder)).await;
        match texts {
            Ok(Ok(texts)) => {
                self.said.remove("folder");
                if self.texts.as_ref() != Some(&texts) {
                    self.take(app, texts).await;
                }
            }
            Ok(Err(error)) => self.say("folder", format!("cannot be read: {error}")),
            Err(error) => self.say("folder", format!("cannot be read: {error}")),
        }
        let contents = Arc::clone(&self.contents);
        for (file, checked) in &contents.documents {
            let gateway = checked.gateway.name.to_string();
            match write(app, file, &gateway, checked).await {
                Ok(Written::Nothing) => {
                    self.said.remove(&gateway);
                }
                Ok(Written::Revision(number)) => {
                    self.said.remove(&gateway);
                    tracing::info!(
                        gateway,
                        file,
                        revision = number,
                        "took a document from its file"
                    );
                }
                Ok(Written::TakenBack) => {
                    let text = format!(
                        "what {file} says was taken back by a later revision; change the file to \
                         bring it anew"
                    );
                    self.say(&gateway, text);
                }
                Err(error) => self.say(&gateway, format!("{file} is not in force: {error}")),
            }
        }
    }

    /// Checks new texts and remembers whose gateways they are.
    async fn take(&mut self, app: &App, texts: Texts) {
        let checking = texts.clone();
        let checked = tokio::task::spawn_blocking(move || folder::check(&checking)).await;
        let Ok(contents) = checked else {
            return;
        };
        let mut files: BTreeMap<String, String> = contents
            .documents
            .iter()
            .map(|(file, checked)| (checked.gateway.name.to_string(), file.clone()))
            .collect();
        // A file with a mistake in it is still where its gateway is to be changed.
        for (gateway, file) in app.managed.files() {
            if contents.problems.iter().any(|(wrong, _)| *wrong == file) {
                files.entry(gateway).or_insert(file);
            }
        }
        app.managed.replace(files);
        self.said.clear();
        for (file, problem) in &contents.problems {
            self.say(file, format!("is not valid: {problem}"));
        }
        self.contents = Arc::new(contents);
        self.texts = Some(texts);
    }

    /// Logs what is wrong with something once, until it is another thing.
    fn say(&mut self, about: &str, text: String) {
        if self.said.get(about) != Some(&text) {
            tracing::warn!(about, "documents: {text}");
            self.said.insert(about.to_owned(), text);
        }
    }
}

/// What came of a document.
enum Written {
    /// It was in force.
    Nothing,
    /// It is this revision now.
    Revision(u64),
    /// It was written before, and somebody or a rollout went back since.
    TakenBack,
}

async fn write(app: &App, file: &str, gateway: &str, checked: &Checked) -> Result<Written, Error> {
    let hash = content_hash(&checked.document);
    let change = || Change {
        actor: AUTHOR.to_owned(),
        actor_id: String::new(),
        message: file.to_owned(),
        now_ms: clock::now_ms(),
        idempotency: None,
    };
    let Some(head) = app.store.gateway(gateway).await? else {
        let created = app
            .store
            .create_gateway(gateway, &checked.document, &hash, &change())
            .await?;
        app.announce_revision(gateway).await;
        return Ok(Written::Revision(created.number));
    };
    if head.hash == hash {
        return Ok(Written::Nothing);
    }
    let history = app.store.revisions(gateway, None, LOOK_BACK).await?;
    let last = history.iter().find(|revision| revision.author == AUTHOR);
    if last.is_some_and(|last| last.hash == hash) {
        return Ok(Written::TakenBack);
    }
    let current = current(app, gateway).await?;
    Emptying::Refused.check(&current.document, checked)?;
    let written = app
        .store
        .write_revision(
            gateway,
            Some(current.number),
            &checked.document,
            &hash,
            &change(),
        )
        .await?;
    app.announce_revision(gateway).await;
    Ok(Written::Revision(written.number))
}
