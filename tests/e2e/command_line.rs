//! The command as people and scripts use it: output, exit codes, and the demonstration as printed.

use lanekeeper_tests::{
    Fleet, LIVENESS, Options, Process, command as lanekeeper, eventually, target_folder,
};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Stdio;
use tokio::process::Command;

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn write(path: &Path, document: &Value) -> String {
    std::fs::write(path, document.to_string()).unwrap();
    path.display().to_string()
}

#[tokio::test]
async fn check_reports_every_problem_and_exits_with_3() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.yaml");
    std::fs::write(
        &file,
        "gateway: edge\npools:\n  chat: {members: [{target: nowhere}]}\nmodles: {}\n",
    )
    .unwrap();
    let path = file.display().to_string();
    let refused = lanekeeper(&["check", &path], &[]).await;
    assert_eq!(refused.status.code(), Some(3));
    let said = text(&refused.stderr);
    for word in ["/pools/chat/members/0/target", "modles", "models"] {
        assert!(said.contains(word), "no {word} in {said}");
    }
    let refused = lanekeeper(&["check", &path, "-o", "json"], &[]).await;
    assert_eq!(refused.status.code(), Some(3));
    let result: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!(result["valid"], false);
    assert!(result["errors"].as_array().unwrap().len() >= 2, "{result}");
    assert_eq!(
        lanekeeper(&["check", "/nowhere.yaml"], &[])
            .await
            .status
            .code(),
        Some(1)
    );
    assert_eq!(lanekeeper(&["chekc"], &[]).await.status.code(), Some(2));
}

#[tokio::test]
async fn output_that_cannot_be_written_is_a_failure_and_a_reader_that_left_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.json");
    let path = write(&file, &json!({"gateway": "edge"}));
    let run = async |arguments: &[&str], stdout: Stdio| {
        let running = Command::new(target_folder().join("lanekeeper"))
            .args(arguments)
            .stdout(stdout)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let done = running.wait_with_output().await.unwrap();
        (done.status.code(), text(&done.stderr))
    };
    for arguments in [
        &["check", path.as_str()][..],
        &["check", &path, "-o", "yaml"],
        &["completion", "bash"],
    ] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
        let (code, said) = run(arguments, Stdio::from(full.unwrap())).await;
        assert_eq!(code, Some(1), "{arguments:?}: {said}");
        assert!(said.contains("output could not be written"), "{said}");

        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let (code, said) = run(arguments, Stdio::from(writer)).await;
        assert_eq!((code, said.as_str()), (Some(0), ""), "{arguments:?}");
    }
}

#[tokio::test]
async fn apply_changes_a_gateway_and_get_reads_it_back() {
    let fleet = Fleet::start(Options::default()).await.unwrap();
    let url = fleet.server.url("http");
    let environment = [
        ("LANEKEEPER_URL", url.as_str()),
        ("LANEKEEPER_TOKEN", &fleet.token),
    ];
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.json");
    let mut document = fleet.document(&json!({}));

    let path = write(&file, &document);
    let same = lanekeeper(&["apply", "-f", &path, "-o", "json"], &environment).await;
    assert_eq!(same.status.code(), Some(0), "{}", text(&same.stderr));
    let same: Value = serde_json::from_slice(&same.stdout).unwrap();
    assert_eq!(
        (&same["action"], &same["revision"]),
        (&json!("unchanged"), &json!(1))
    );

    document["pools"]["chat"]["members"][0]["weight"] = json!(5);
    let path = write(&file, &document);
    let dry = lanekeeper(&["apply", "-f", &path, "--dry-run"], &environment).await;
    assert_eq!(dry.status.code(), Some(0), "{}", text(&dry.stderr));
    let changed = lanekeeper(&["apply", "-f", &path, "--wait"], &environment).await;
    assert_eq!(changed.status.code(), Some(0), "{}", text(&changed.stderr));
    assert!(
        text(&changed.stdout).contains("revision 2"),
        "{}",
        text(&changed.stdout)
    );
    fleet.applied(2, 3, LIVENESS).await;

    let config = lanekeeper(&["get", "config", "edge", "-o", "json"], &environment).await;
    assert_eq!(
        serde_json::from_slice::<Value>(&config.stdout).unwrap(),
        document
    );
    let agents = lanekeeper(&["get", "agents", "edge"], &environment).await;
    for name in ["node-0", "node-1", "node-2", "live"] {
        assert!(
            text(&agents.stdout).contains(name),
            "{}",
            text(&agents.stdout)
        );
    }
    let breakers = lanekeeper(&["get", "breakers", "--closed"], &environment).await;
    assert!(
        text(&breakers.stdout).contains("gpt-east"),
        "{}",
        text(&breakers.stdout)
    );
    for resource in ["gateways", "revisions"] {
        let listed = lanekeeper(&["get", resource, "edge"], &environment).await;
        assert_eq!(listed.status.code(), Some(0), "{}", text(&listed.stderr));
        assert!(
            text(&listed.stdout).contains('2'),
            "{}",
            text(&listed.stdout)
        );
    }

    document["pools"]["chat"]["members"] = json!([]);
    let path = write(&file, &document);
    let invalid = lanekeeper(&["apply", "-f", &path], &environment).await;
    assert_eq!(invalid.status.code(), Some(3));
    let missing = lanekeeper(&["get", "config", "nowhere"], &environment).await;
    assert_eq!(missing.status.code(), Some(7), "{}", text(&missing.stderr));
    let stranger = [
        ("LANEKEEPER_URL", url.as_str()),
        ("LANEKEEPER_TOKEN", "no.token"),
    ];
    assert_eq!(
        lanekeeper(&["get", "agents"], &stranger)
            .await
            .status
            .code(),
        Some(6)
    );
    let nobody = [("LANEKEEPER_URL", "http://127.0.0.1:9")];
    assert_eq!(
        lanekeeper(&["get", "agents"], &nobody).await.status.code(),
        Some(4)
    );
}

#[tokio::test]
async fn commands_take_what_people_are_used_to_type() {
    let fleet = Fleet::start(Options::default()).await.unwrap();
    let url = fleet.server.url("http");
    let environment = [
        ("LANEKEEPER_URL", url.as_str()),
        ("LANEKEEPER_TOKEN", &fleet.token),
    ];
    let folder = tempfile::tempdir().unwrap();
    let two = folder.path().join("two.yaml");
    std::fs::write(&two, "gateway: one\n---\n# the other\ngateway: two\n").unwrap();
    let two = two.display().to_string();
    let twice = folder.path().join("twice.yaml");
    std::fs::write(&twice, "gateway: new\n---\ngateway: new\n").unwrap();
    let twice = twice.display().to_string();
    let half = folder.path().join("half.yaml");
    std::fs::write(&half, "gateway: new\n---\ngatewya: two\n").unwrap();
    let half = half.display().to_string();

    // Arguments, exit code, and what the two outputs say.
    type Case<'a> = (&'a [&'a str], i32, &'a [&'a str], &'a [&'a str]);
    let created = ["gateway one created: revision 1", "gateway two created"];
    let cases: &[Case] = &[
        (
            &["check", &two],
            0,
            &["gateway \"one\" is valid", "\"two\""],
            &[],
        ),
        (
            &["check", &half],
            3,
            &["\"new\""],
            &["document 2", "gatewya"],
        ),
        (&["apply", "-f", &half], 3, &[], &["document 2"]),
        (&["apply", "-f", &twice], 3, &[], &["defined twice"]),
        (&["get", "gw", "new"], 7, &[], &["new"]),
        (
            &["diff", "-f", &two, "--exit-code"],
            8,
            &["apply creates it"],
            &["2 difference"],
        ),
        (&["apply", "-f", &two], 0, &created, &[]),
        (
            &["apply", "-f", &two, "-o", "json"],
            0,
            &["[", "unchanged"],
            &[],
        ),
        (&["diff", "-f", &two, "--exit-code"], 0, &[], &[]),
        (
            &["get", "gateways", "-o", "name"],
            0,
            &["edge\none\ntwo\n"],
            &[],
        ),
        (&["get", "gateway", "one"], 0, &["one"], &[]),
        (&["get", "config", "a/b?c#d"], 7, &[], &["a/b?c#d"]),
        (&["get", "agents", "a&limit=1"], 7, &[], &["a&limit=1"]),
        (&["get", "revision", "one", "-o", "name"], 0, &["1\n"], &[]),
        (&["get", "rollouts", "one"], 0, &["REVISION"], &[]),
        (
            &["get", "rollouts"],
            2,
            &[],
            &["lanekeeper get rollouts NAME"],
        ),
        (
            &["get", "overrides", "one", "-o", "wide"],
            0,
            &["REASON"],
            &[],
        ),
        (&["get", "pods"], 2, &[], &["gateways, agents, breakers"]),
        (
            &["get", "agents", "-o", "xml"],
            2,
            &[],
            &["table, wide, json, yaml, name"],
        ),
        (&["token", "create", ""], 3, &[], &["NAME: must be"]),
        (
            &["completion", "bash"],
            0,
            &["_clap_complete_lanekeeper"],
            &[],
        ),
    ];
    for (arguments, code, out, err) in cases {
        let done = lanekeeper(arguments, &environment).await;
        let (printed, said) = (text(&done.stdout), text(&done.stderr));
        let case = format!("{arguments:?}: {printed} / {said}");
        assert_eq!(done.status.code(), Some(*code), "{case}");
        assert!(out.iter().all(|word| printed.contains(word)), "{case}");
        assert!(err.iter().all(|word| said.contains(word)), "{case}");
        assert_eq!(
            *code == 0,
            said.is_empty(),
            "only errors are printed there: {case}"
        );
    }
    let agents = lanekeeper(&["get", "agents", "edge", "-o", "name"], &environment).await;
    assert_eq!(text(&agents.stdout).lines().count(), 3);
}

/// A first port with room for the demonstration's others above it.
fn free_base() -> u16 {
    let free = |port: u16| std::net::TcpListener::bind(("127.0.0.1", port)).is_ok();
    let offsets = [0, 1, 2, 10, 11, 20, 21, 30, 31, 100];
    (20_000..30_000)
        .step_by(131)
        .find(|base| offsets.iter().all(|offset| free(base + offset)))
        .expect("a range of free ports")
}

/// Runs a printed line as a person would, through a shell.
async fn shell(line: &str) -> String {
    let output = Command::new("sh")
        .args(["-c", line])
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{line}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[tokio::test]
async fn the_demonstrations_printed_lines_work_as_printed() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["demo".to_owned(), format!("--port-base={}", free_base())];
    let log = folder.path().join("log");
    let mut demo = Process::start_printing(&arguments, "Ctrl-C ends it.", &log)
        .await
        .unwrap();
    let lines: Vec<String> = demo
        .printed
        .iter()
        .map(|line| line.trim().to_owned())
        .collect();
    let curls: Vec<&String> = lines
        .iter()
        .filter(|line| line.starts_with("curl "))
        .collect();
    assert_eq!(curls.len(), 4, "{lines:?}");

    let whole: Value = serde_json::from_str(&shell(curls[0]).await).unwrap();
    assert!(
        whole["choices"][0]["message"]["content"].is_string(),
        "{whole}"
    );
    let stream = shell(curls[1]).await;
    assert!(stream.contains("event: message_stop"), "{stream}");
    let ask = || async {
        let view = shell(curls[2]).await;
        serde_json::from_str::<Value>(&view).map_err(|error| format!("{error}: {view}"))
    };
    let (view, _) = eventually("three live agents", LIVENESS, || async {
        let view = ask().await?;
        if view["agents"]["live"] == 3 {
            Ok(view)
        } else {
            Err(view.to_string())
        }
    })
    .await;
    let pooled = |cell: &&Value| cell["pool"] != "";
    assert_eq!(
        view["cells"]
            .as_array()
            .unwrap()
            .iter()
            .filter(pooled)
            .count(),
        4,
        "{view}"
    );

    let fault: Value = serde_json::from_str(&shell(curls[3]).await).unwrap();
    assert_eq!(fault["status"], 503, "{fault}");
    eventually(
        "the broken lane is open on all agents",
        LIVENESS,
        || async {
            let view = ask().await?;
            let cells = view["cells"].as_array().unwrap();
            let open = cells
                .iter()
                .any(|cell| cell["lane"] == "gpt-east" && cell["agents"]["open"] == 3);
            if open { Ok(()) } else { Err(view.to_string()) }
        },
    )
    .await;
    let page = lines.iter().find(|line| line.contains("/?token=")).unwrap();
    assert!(
        shell(&format!("curl -s '{page}'")).await.contains("<html"),
        "no page at {page}"
    );
    demo.signal("INT").await;
    assert_eq!(demo.exit_code(LIVENESS).await, Some(0));
}

/// Blocks of a page that are marked to be run.
fn runnable_blocks(page: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if line.trim() == "```sh runnable" {
            let block: Vec<&str> = lines
                .by_ref()
                .take_while(|line| line.trim() != "```")
                .collect();
            blocks.push(block.join("\n"));
        }
    }
    blocks
}

#[tokio::test]
async fn the_blocks_marked_runnable_in_the_pages_run() {
    let root = lanekeeper_tests::repository();
    let mut pages = vec![root.join("README.md")];
    for entry in std::fs::read_dir(root.join("docs")).unwrap() {
        pages.push(entry.unwrap().path());
    }
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", target_folder().display());
    let mut ran = 0;
    for page in pages
        .iter()
        .filter(|page| page.extension().is_some_and(|end| end == "md"))
    {
        for block in runnable_blocks(&std::fs::read_to_string(page).unwrap()) {
            let folder = tempfile::tempdir().unwrap();
            let mut command = Command::new("bash");
            command
                .args(["-euc", &block])
                .current_dir(folder.path())
                .env("PATH", &path);
            let output = command.output().await.unwrap();
            let said = text(&output.stderr);
            assert!(
                output.status.success(),
                "{}:\n{block}\n{said}",
                page.display()
            );
            ran += 1;
        }
    }
    assert!(ran > 0, "no page has a runnable block");
}
