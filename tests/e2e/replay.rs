//! What happened on an agent, played again under another policy.

use lanekeeper_tests::{Fleet, LIVENESS, Options, command, eventually};
use serde_json::{Value, json};

const LANE: &str = "gpt-east";

#[tokio::test]
async fn an_agents_journal_is_replayed_and_thresholds_are_suggested() {
    let breaker = json!({"base_cooldown_secs": 1, "max_cooldown_secs": 1, "park_secs": 0,
        "trip": {"mode": "consecutive", "consecutive_n": 3}});
    let fleet = Fleet::start(Options {
        breaker,
        agents: 1,
        ..Options::default()
    })
    .await
    .unwrap();
    for _ in 0..6 {
        assert!(fleet.chat(0).await);
    }
    fleet
        .set_fault(json!({"model": LANE, "status": 503}))
        .await
        .unwrap();
    let url = format!("{}/journal", fleet.agents[0].url("ops"));
    let (journal, _) = eventually("the journal has the opening", LIVENESS, || async {
        assert!(fleet.chat(0).await);
        let answer = fleet
            .http
            .get(&url)
            .send()
            .await
            .map_err(|e| e.to_string())?;
        let text = answer.text().await.map_err(|e| e.to_string())?;
        match text.contains("\"opened\"") {
            true => Ok(text),
            false => Err(text),
        }
    })
    .await;

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("journal.jsonl");
    std::fs::write(&file, &journal).unwrap();
    let policy = folder.path().join("policy.yaml");
    std::fs::write(&policy, "{trip: {mode: consecutive, consecutive_n: 1}}").unwrap();
    let picture = folder.path().join("plot.svg");
    let path = file.to_str().unwrap();
    let replay = async |more: &[&str]| {
        let first = ["replay", path, "--lane", LANE];
        let arguments: Vec<&str> = first.iter().chain(more).copied().collect();
        command(&arguments, &[]).await
    };
    let (policy, picture) = (policy.to_str().unwrap(), picture.to_str().unwrap());
    let wanted = [
        "--breaker",
        policy,
        "--suggest",
        "--plot",
        picture,
        "-o",
        "json",
    ];
    let output = replay(&wanted).await;
    assert!(output.status.success(), "{output:?}");
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    let it = &results[0];
    assert_eq!(it["cell"]["pool"], "chat", "{it}");
    assert_eq!(it["truth"]["trips"], 1, "{it}");
    assert_eq!(it["truth"]["failures"], 3, "{it}");
    assert_eq!(it["replay"]["trips"], 1, "{it}");
    assert_eq!(
        it["replay"]["failures_let_through"], 1,
        "one failure trips it: {it}"
    );
    assert_eq!(it["replay"]["failures_spared"], 2, "{it}");
    assert!(
        !it["suggestions"]["best"].as_array().unwrap().is_empty(),
        "{it}"
    );
    let picture = std::fs::read_to_string(picture).unwrap();
    assert!(picture.starts_with("<svg"), "{picture}");

    let output = replay(&[]).await;
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("recorded:") && text.contains("replayed:"),
        "{text}"
    );

    // Bad input: refused with words, or read as far as it goes.
    std::fs::write(&file, &journal[..journal.len() - 20]).unwrap();
    let output = replay(&[]).await;
    let words = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.success() && words.contains("cut in its last line"),
        "{words}"
    );
    std::fs::write(&file, format!("not json\n{journal}")).unwrap();
    let output = replay(&[]).await;
    let words = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && words.contains("line 1"),
        "{words}"
    );
    std::fs::write(&file, &journal).unwrap();
    let output = replay(&["--pool", "nowhere"]).await;
    assert!(!output.status.success(), "{output:?}");
}
