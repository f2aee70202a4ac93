//! Control planes and APIs that die, freeze and come back.

use lanekeeper_tests::{Cluster, Written, eventually};
use std::time::Duration;

/// How long a session may take to come back.
const BACK: Duration = Duration::from_secs(45);

#[tokio::test]
async fn a_killed_control_plane_is_missed_by_nobody_who_calls() {
    let mut cluster = Cluster::start(2, 3).await.unwrap();
    let history = cluster.watch().with_probes(&cluster).await;
    cluster.control_planes[0].kill().await;
    // The other half of the fleet takes changes meanwhile; the API does not need this replica.
    let document = cluster.document(2);
    assert_eq!(
        cluster.commit(&history, 0, &document).await,
        Written::Confirmed(2)
    );
    let orphaned = history.requests();
    eventually("a hundred requests without it", BACK, || async {
        match history.requests() - orphaned {
            answered if answered >= 100 => Ok(()),
            answered => Err(answered.to_string()),
        }
    })
    .await;
    cluster.restart_control_plane(0).await.unwrap();
    println!("all back after {:?}", cluster.converged(2, BACK).await);
    cluster.apis[1].kill().await;
    let document = cluster.document(3);
    assert_eq!(
        cluster.commit(&history, 1, &document).await,
        Written::Unknown
    );
    assert_eq!(
        cluster.commit(&history, 0, &document).await,
        Written::Confirmed(3)
    );
    cluster.restart_api(1).await.unwrap();
    cluster.all_live(BACK).await;
    history.judge(&cluster).await;
}

/// A frozen control plane is left, and does not undo anything when it thaws.
pub(crate) async fn frozen_control_plane() {
    let cluster = Cluster::start(2, 2).await.unwrap();
    let history = cluster.watch().with_probes(&cluster).await;
    cluster.control_planes[0].signal("STOP").await;
    for weight in 2..=4 {
        let document = cluster.document(weight);
        assert_eq!(
            cluster.commit(&history, 0, &document).await,
            Written::Confirmed(weight)
        );
    }
    eventually("its agent is stale and not closed", BACK, || async {
        let view = cluster
            .get(1, "/api/v1/breaker-state?include=closed&pool=chat")
            .await
            .map_err(|error| error.to_string())?;
        let agents = &view["cells"][0]["agents"];
        if agents["stale"] == 1 && agents["reporting"] == 1 {
            Ok(())
        } else {
            Err(view.to_string())
        }
    })
    .await;
    cluster.control_planes[0].signal("CONT").await;
    cluster.converged(4, BACK).await;
    cluster.all_live(BACK).await;
    history.judge(&cluster).await;
}

/// A frozen agent is stale, and catches up when it thaws.
pub(crate) async fn frozen_agent() {
    let cluster = Cluster::start(1, 2).await.unwrap();
    let mut history = cluster.watch();
    // Calls to a frozen agent cannot be answered.
    history.leave_agent(&cluster.agents[0]);
    cluster.agents[0].signal("STOP").await;
    eventually("it is stale", BACK, || async {
        let view = cluster
            .get(0, "/api/v1/breaker-state?include=closed&pool=chat")
            .await
            .map_err(|error| error.to_string())?;
        let agents = &view["cells"][0]["agents"];
        if agents["stale"] == 1 && agents["reporting"] == 1 {
            Ok(())
        } else {
            Err(view.to_string())
        }
    })
    .await;
    let document = cluster.document(2);
    assert_eq!(
        cluster.commit(&history, 0, &document).await,
        Written::Confirmed(2)
    );
    cluster.serves(1, 2, BACK).await;
    cluster.agents[0].signal("CONT").await;
    cluster.converged(2, BACK).await;
    history.follow_agent(&cluster, &cluster.agents[0]);
    cluster.all_live(BACK).await;
    history.judge(&cluster).await;
}
