//! Agents whose certificates have ended, come from elsewhere or were revoked: they are kept out,
//! serve on, and come back with a new token.

use lanekeeper_tests::{Cluster, Process, Written, eventually, holds_for};
use rcgen::{CertificateParams, KeyPair, SanType};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

const BOUND: Duration = Duration::from_secs(45);
/// A revoked agent's session ends within this.
const REVOKED: Duration = Duration::from_secs(5);
/// Life of an agent's certificate. Agents renew it after three fifths.
const LIFE_SECS: u64 = 8;
const CONNECTED: &str = "lanekeeper_session_connected";

async fn is_connected(cluster: &Cluster, agent: &Process, wanted: bool) -> Result<(), String> {
    match cluster.metric(agent, CONNECTED).await {
        Ok(seen) if (seen == 1.0) == wanted => Ok(()),
        seen => Err(format!("{seen:?}")),
    }
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    u64::try_from(now.unwrap().as_millis()).unwrap()
}

/// What an agent keeps of its identity.
fn kept(cluster: &Cluster, number: usize) -> Value {
    let file = cluster.cache_dir(number).join("identity");
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

/// Puts in the place of an agent's certificate one that says the same and that somebody else
/// signed.
fn forge(cluster: &Cluster, number: usize) {
    let mut state = kept(cluster, number);
    let id = state["kept"]["agent_id"].as_str().unwrap();
    let name = format!("lanekeeper://gateway/edge/agent/{id}");
    let key = KeyPair::generate().unwrap();
    let mut parameters = CertificateParams::new(Vec::<String>::new()).unwrap();
    parameters.subject_alt_names = vec![SanType::URI(name.try_into().unwrap())];
    let certificate = parameters.self_signed(&key).unwrap();
    state["kept"]["certificate"] = json!(certificate.pem());
    state["kept"]["key"] = json!(key.serialize_pem());
    state["kept"]["expires_ms"] = json!(now_ms() + 3_600_000);
    let file = cluster.cache_dir(number).join("identity");
    std::fs::write(file, state.to_string()).unwrap();
}

async fn revoke(cluster: &Cluster, id: &str) {
    let url = format!("{}/admin/v1/identities/{id}", cluster.apis[0].url("http"));
    let revoked = cluster.http.delete(url).bearer_auth(&cluster.token);
    assert_eq!(revoked.send().await.unwrap().status(), 204);
}

#[tokio::test]
async fn who_has_an_expired_a_foreign_or_a_revoked_certificate_is_kept_out_and_serves_on() {
    let mut cluster = Cluster::start_with_certificates(LIFE_SECS, 2, 4)
        .await
        .unwrap();
    cluster.all_live(BOUND).await;
    let mut history = cluster.watch();

    let identity = kept(&cluster, 1)["kept"]["agent_id"].clone();
    revoke(&cluster, identity.as_str().unwrap()).await;
    eventually("the revoked one's session ends", REVOKED, || {
        is_connected(&cluster, &cluster.agents[1], false)
    })
    .await;

    // Two are away: one until its certificate has ended, one until somebody has changed it.
    for number in [0, 2] {
        history.leave_agent(&cluster.agents[number]);
        cluster.agents[number].kill().await;
    }
    forge(&cluster, 2);
    eventually("a certificate ends", BOUND, || async {
        let expires_ms = kept(&cluster, 0)["kept"]["expires_ms"].as_u64();
        match expires_ms.is_some_and(|it| it < now_ms()) {
            true => Ok(()),
            false => Err(format!("{expires_ms:?}")),
        }
    })
    .await;
    for number in [0, 2] {
        cluster.agents[number] = cluster.start_agent(number).await.unwrap();
        history.follow_agent(&cluster, &cluster.agents[number]);
    }
    let document = cluster.document(2);
    assert_eq!(
        cluster.commit(&history, 0, &document).await,
        Written::Confirmed(2)
    );
    // The one whose certificate is good has renewed it meanwhile.
    cluster.serves(3, 2, BOUND).await;
    holds_for(
        "the others stay outside",
        Duration::from_secs(3),
        || async {
            for agent in &cluster.agents[..3] {
                is_connected(&cluster, agent, false).await?;
            }
            Ok(())
        },
    )
    .await;
    for number in 0..3 {
        cluster.serves(number, 1, BOUND).await;
    }

    for number in 0..3 {
        cluster.new_join_token(number).await.unwrap();
    }
    cluster.converged(2, BOUND).await;
    for agent in &cluster.agents {
        is_connected(&cluster, agent, true).await.unwrap();
    }
    history.judge(&cluster).await;
}
