//! Agents that repeat themselves, answer what is over and are late: nothing they say twice or too
//! late counts.

use futures_util::stream;
use lanekeeper_model::{CellReport, CellState, Problem, Report};
use lanekeeper_proto::FleetClient;
use lanekeeper_proto::message::{
    ConfigOutcome, ConfigPush, ConfigResult, FromAgent, FromServer, Hello, Welcome,
};
use lanekeeper_proto::wire::{AgentMessage, ServerMessage};
use lanekeeper_tests::{Cluster, History, Process, Written, eventually, holds_for};
use std::time::Duration;
use tokio::sync::mpsc;
use tonic::Streaming;

use crate::hello;

const BOUND: Duration = Duration::from_secs(20);
/// What is wrong shows within a moment: the view is a second old at most.
const MOMENT: Duration = Duration::from_secs(2);
const PLAYED: &str = "played";

/// A session that the test itself holds.
struct Played {
    saying: mpsc::Sender<AgentMessage>,
    heard: Streaming<ServerMessage>,
    welcome: Welcome,
}

impl Played {
    async fn begin(control_plane: &Process, hello: Hello) -> Self {
        let (saying, said) = mpsc::channel(16);
        let said = stream::unfold(said, |mut said| async move {
            let next = said.recv().await;
            next.map(|message| (message, said))
        });
        saying.send(FromAgent::Hello(hello).into()).await.unwrap();
        let mut client = FleetClient::connect(control_plane.url("grpc"))
            .await
            .unwrap();
        let mut heard = client.session(said).await.unwrap().into_inner();
        let FromServer::Welcome(welcome) = next(&mut heard).await else {
            panic!("something before the Welcome")
        };
        Self {
            saying,
            heard,
            welcome,
        }
    }

    async fn say(&self, message: FromAgent) {
        self.saying.send(message.into()).await.unwrap();
    }

    /// The next push; other messages are passed over.
    async fn push(&mut self) -> ConfigPush {
        loop {
            if let FromServer::ConfigPush(push) = next(&mut self.heard).await {
                return push;
            }
        }
    }

    /// Reports once and waits for the answer.
    async fn report(&mut self, seq: u64, state: CellState) {
        let cells = match state {
            CellState::Closed => Vec::new(),
            CellState::Open | CellState::HalfOpen => vec![cell(state)],
        };
        let report = Report {
            seq,
            cells,
            ..Report::default()
        };
        self.say(FromAgent::Report(report)).await;
        loop {
            if let FromServer::ReportAck(ack) = next(&mut self.heard).await {
                assert_eq!(ack.seq, seq);
                return;
            }
        }
    }
}

async fn next(heard: &mut Streaming<ServerMessage>) -> FromServer {
    let next = tokio::time::timeout(BOUND, heard.message()).await;
    let message = next.expect("an answer in time").unwrap();
    FromServer::try_from(message.expect("the session goes on")).unwrap()
}

fn cell(state: CellState) -> CellReport {
    let cell = serde_json::json!({"pool": "chat", "lane": "gpt-east", "provider": "east",
        "state": state, "state_age_ms": 1000, "open_age_ms": 1000, "trips": 1});
    serde_json::from_value(cell).unwrap()
}

async fn commit(cluster: &Cluster, history: &History, weight: u64) -> u64 {
    match cluster.commit(history, 0, &cluster.document(weight)).await {
        Written::Confirmed(revision) => revision,
        other => panic!("{other:?}"),
    }
}

/// An answer to the push with this nonce from an agent that serves what `serves` brought.
fn answer(nonce: u64, outcome: ConfigOutcome, serves: Option<&ConfigPush>) -> FromAgent {
    FromAgent::ConfigResult(ConfigResult {
        nonce,
        outcome,
        revision: serves.map_or(0, |push| push.revision),
        hash: serves.map_or(String::new(), |push| push.hash.clone()),
        pools: Vec::new(),
    })
}

fn applied() -> ConfigOutcome {
    ConfigOutcome::Applied {
        problems: Vec::new(),
    }
}

fn rejected() -> ConfigOutcome {
    let errors = vec![Problem::new("", "doubt", "from another time")];
    ConfigOutcome::Rejected { errors }
}

/// An answer counts for the push that it names and for no other.
async fn stale_answers() {
    let cluster = Cluster::start(1, 1).await.unwrap();
    let history = cluster.watch();
    let mut played = Played::begin(&cluster.control_planes[0], hello(PLAYED)).await;
    let first = played.push().await;
    assert_eq!(first.revision, 1);
    commit(&cluster, &history, 2).await;
    let newest = commit(&cluster, &history, 3).await;
    cluster.converged(newest, BOUND).await;
    let shown = async || cluster.listed(0, PLAYED).await.map_err(|e| e.to_string());
    let is_under_way = async |revision: u64| {
        let agent = shown().await?;
        let is_so = agent["applied_revision"] == revision
            && agent["last_error"].is_null()
            && agent["converged"] == false;
        is_so.then_some(()).ok_or_else(|| agent.to_string())
    };
    let stays = async |what: &str, revision: u64| {
        // The list may be a second old.
        eventually(what, BOUND, || is_under_way(revision)).await;
        holds_for(what, MOMENT, || is_under_way(revision)).await;
    };
    // A nonce that nobody gave.
    played
        .say(answer(first.nonce + 900, rejected(), None))
        .await;
    stays("the push is under way", 0).await;
    played
        .say(answer(first.nonce, applied(), Some(&first)))
        .await;
    // The one between was never sent: newer ones replace what waits.
    let second = played.push().await;
    assert_eq!(second.revision, newest);
    // The answer to the first once more, and the opposite of it.
    played
        .say(answer(first.nonce, applied(), Some(&first)))
        .await;
    played
        .say(answer(first.nonce, rejected(), Some(&first)))
        .await;
    stays("the second push is under way", 1).await;
    played
        .say(answer(second.nonce, applied(), Some(&second)))
        .await;
    eventually("the true answer counts", BOUND, || async {
        let agent = shown().await?;
        match agent["applied_revision"] == newest && agent["converged"] == true {
            true => Ok(()),
            false => Err(agent.to_string()),
        }
    })
    .await;
    history.judge(&cluster).await;
}

/// Reports that come again, or late from a session that is over, change nothing.
async fn replayed_reports() {
    let cluster = Cluster::start(2, 2).await.unwrap();
    cluster.all_live(BOUND).await;
    let history = cluster.watch();
    // Nobody else has anything open.
    let shows = async |open: u64| -> Result<(), String> {
        for api in 0..2 {
            let path = "/api/v1/breaker-state?pool=chat&lane=gpt-east&include=closed";
            let view = cluster.get(api, path).await.map_err(|e| e.to_string())?;
            if view["cells"][0]["agents"]["open"] != open {
                return Err(format!("api {api}: {view}"));
            }
        }
        Ok(())
    };
    let becomes = async |open: u64| {
        eventually(&format!("{open} open"), BOUND, || shows(open)).await;
    };
    let stays = async |what: &str, open: u64| holds_for(what, MOMENT, || shows(open)).await;
    let mut first = Played::begin(&cluster.control_planes[0], hello(PLAYED)).await;
    first.report(1, CellState::Open).await;
    becomes(1).await;
    first.report(2, CellState::Closed).await;
    becomes(0).await;
    for _ in 0..3 {
        first.report(1, CellState::Open).await;
        first.report(2, CellState::Open).await;
    }
    stays("what came before does not come back", 0).await;

    // The agent goes on at the other replica; its old session has not noticed and speaks late.
    let again = Hello {
        previous_session_epoch: Some(first.welcome.session_epoch),
        ..hello(PLAYED)
    };
    let mut second = Played::begin(&cluster.control_planes[1], again).await;
    assert!(second.welcome.session_epoch > first.welcome.session_epoch);
    second.report(1, CellState::Closed).await;
    becomes(0).await;
    for seq in 3..6 {
        let late = Report {
            seq,
            cells: vec![cell(CellState::Open)],
            ..Report::default()
        };
        // The server may have ended that session by now.
        let _ = first.saying.send(FromAgent::Report(late).into()).await;
    }
    stays("the later session has the word", 0).await;
    let agent = cluster.listed(0, PLAYED).await.unwrap();
    assert_eq!(agent["state"], "live", "{agent}");
    history.judge(&cluster).await;
}

#[tokio::test]
async fn answers_and_reports_that_come_again_or_late_change_nothing() {
    tokio::join!(stale_answers(), replayed_reports());
}
