//! Every way a provider can fail, as one row: what the caller sees when no other lane is there, how
//! the lane is booked, and whether the next request goes there.
//!
//! Each row is played twice on every protocol it fits: on a pool of the one lane, and beside a
//! healthy sibling. Beside a sibling the rule is the same for all rows: as long as nothing of the
//! answer has reached the caller, the sibling answers and the caller notices nothing.

use crate::caller::Got;
use crate::classification::peer;
use crate::dialects::{ALL, Dialect, GEMINI, OPENAI, RESPONSES, cut, ended};
use crate::gateway::{Agent, Document};
use crate::upstream::{Script, Step, Upstream, answer, chunk, json, stream_head};
use futures_util::StreamExt as _;
use std::net::SocketAddr;

/// Cases played at a time; more would let the machine's load decide about timeouts.
const AT_A_TIME: usize = 24;
/// Bounds short enough to wait for, on lanes whose fault is silence.
const SHORT_BOUNDS: &str =
    "attempt_timeout_ms: 500, first_content_timeout_ms: 700, idle_timeout_secs: 0.7";

/// Which requests meet the fault.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Of {
    /// Those that ask for one document.
    Documents,
    /// Those that ask for a stream.
    Streams,
    Both,
}

/// What the lane does.
#[derive(Clone)]
enum Fault {
    /// It answers so.
    Script(Script),
    /// It answers so, with bounds on silence.
    Silent(Script),
    /// Nobody listens at its address.
    Refused,
    /// Its name does not resolve.
    NoName,
    /// It does not speak TLS.
    NoTls,
}

/// What the caller sees when there is no other lane.
#[derive(Clone, Copy, Debug)]
enum Seen {
    /// An error of the agent's own, with this status.
    Told(u16),
    /// The lane's own answer, with this status and byte for byte.
    Relayed(u16),
    /// The beginning of the answer, then an error event and a broken connection.
    BrokenOff,
    /// A broken document: it cannot carry an error event.
    CutShort,
}

/// How the lane is booked.
#[derive(Clone, Copy, Debug)]
enum Booked {
    /// One failure; its kind is one of these.
    Failure(&'static [&'static str]),
    /// Open at once and for long, by this kind.
    HardDown(&'static str),
    /// A fault of the caller.
    ClientFault,
    /// Neither good nor bad.
    Nothing,
    /// A success.
    Success,
}

/// What the next request does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Next {
    /// It goes to the lane as if nothing had been.
    Again,
    /// It goes to the sibling, and to the lane where there is none.
    SiblingFirst,
    /// It does not go to the lane.
    NotThere,
}

#[derive(Clone)]
struct Row {
    fault: &'static str,
    of: Of,
    what: Fault,
    alone: Seen,
    booked: Booked,
    next: Next,
}

fn row(
    fault: &'static str,
    of: Of,
    what: impl Into<Fault>,
    alone: Seen,
    booked: Booked,
    next: Next,
) -> Row {
    Row {
        fault,
        of,
        what: what.into(),
        alone,
        booked,
        next,
    }
}

impl From<Script> for Fault {
    fn from(script: Script) -> Self {
        Self::Script(script)
    }
}

fn silent(script: Script) -> Fault {
    Fault::Silent(script)
}

/// The stream's head, these frames, and then `last`.
fn then(frames: &[&str], last: Step) -> Script {
    let mut script = vec![stream_head()];
    script.extend(frames.iter().map(|frame| chunk(frame)));
    script.push(last);
    script
}

/// The head of a document that announces more than comes, some of it, and then `last`.
fn half_document(last: Step) -> Script {
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 5000\r\n\r\n{\"a\":";
    vec![Step::Write(head.as_bytes().to_vec()), last]
}

/// More of a document than is held back, and then `last`.
fn long_document(last: Step) -> Script {
    let beginning = format!("{{\"a\":\"{}", "x".repeat(300 * 1024));
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500000\r\n\r\n";
    vec![Step::Write([head, &beginning].concat().into_bytes()), last]
}

/// The table. `d` is the protocol the lane speaks.
#[rustfmt::skip]
fn rows(d: &'static Dialect) -> Vec<Row> {
    use Booked::{ClientFault, Failure, HardDown, Nothing, Success};
    use Next::{Again, NotThere, SiblingFirst};
    use Of::{Both, Documents, Streams};
    use Seen::{BrokenOff, CutShort, Relayed, Told};
    use Step::{Close, Hang, Reset};
    const PING: &str = ": ping\n\n";
    let html = [("content-type", "text/html")];
    // One of the errors in disguise is a rate limit.
    let told = if d.protocol == RESPONSES.protocol { 429 } else { 503 };
    let mut rows = vec![
        //  what happens                        to         the lane's answer                           alone         booked                           next request
        row("silence before the headers",       Both,      silent(vec![Hang]),                         Told(503),    Failure(&["timeout"]),           SiblingFirst),
        row("silence after the headers",        Streams,   silent(then(&[], Hang)),                    Told(503),    Failure(&["timeout"]),           SiblingFirst),
        row("silence in a document",            Documents, silent(half_document(Hang)),                Told(503),    Failure(&["timeout"]),           SiblingFirst),
        row("silence after a ping",             Streams,   silent(then(&[PING], Hang)),                Told(503),    Failure(&["timeout"]),           SiblingFirst),
        row("silence after lifecycle",          Streams,   silent(then(&[d.lifecycle], Hang)),         Told(503),    Failure(&["timeout"]),           SiblingFirst),
        row("silence after content",            Streams,   silent(then(&[d.content], Hang)),           BrokenOff,    Failure(&["stalled"]),           SiblingFirst),

        row("401",                              Both,      json(401, "{\"secret\":1}"),                Told(401),    HardDown("auth"),                NotThere),
        row("403",                              Both,      json(403, "{\"secret\":1}"),                Told(503),    Failure(&["status"]),            SiblingFirst),
        row("402",                              Both,      json(402, "{\"secret\":1}"),                Told(503),    HardDown("billing"),             NotThere),
        row("429 of a rate",                    Both,      json(429, "{}"),                            Told(429),    Failure(&["rate_limit"]),        SiblingFirst),
        row("429 with a wait",                  Both,      answer(429, &[("retry-after", "40")], "{}"), Told(429),   Failure(&["rate_limit"]),        NotThere),
        row("400",                              Both,      json(400, "{\"error\":{\"a\":1}}"),         Relayed(400), ClientFault,                     Again),
        row("404",                              Both,      json(404, "{}"),                            Relayed(404), ClientFault,                     Again),
        row("422",                              Both,      json(422, "{}"),                            Relayed(422), ClientFault,                     Again),
        row("408",                              Both,      json(408, "{}"),                            Told(503),    Failure(&["status", "timeout"]), SiblingFirst),
        row("500",                              Both,      json(500, "{}"),                            Told(503),    Failure(&["status"]),            SiblingFirst),
        row("500 of a proxy",                   Both,      answer(500, &html, "<html>"),               Told(503),    Failure(&["status"]),            SiblingFirst),
        row("503",                              Both,      json(503, "{}"),                            Told(503),    Failure(&["status"]),            SiblingFirst),
        row("503 with a wait",                  Both,      answer(503, &[("retry-after", "40")], ""),  Told(503),    Failure(&["status"]),            NotThere),
        row("503 without its words",            Both,      vec![Step::Write(b"HTTP/1.1 503 X\r\ncontent-length: 9\r\n\r\n".to_vec()), Close], Told(503), Failure(&["status"]), SiblingFirst),
        row("524",                              Both,      json(524, ""),                              Told(503),    Failure(&["status"]),            SiblingFirst),
        row("529",                              Both,      json(529, "{}"),                            Told(503),    Failure(&["overloaded"]),        SiblingFirst),
        row("redirect",                         Both,      answer(302, &[("location", "http://127.0.0.1:9/")], ""), Told(503), Failure(&["redirect"]), SiblingFirst),

        row("200 with an error body",           Documents, json(200, d.whole_error),                   Told(told),   Failure(&["overloaded", "rate_limit", "error_frame", "status"]), SiblingFirst),
        row("200 with an error frame",          Streams,   ended(&[d.error]),                          Told(503),    Failure(&["overloaded", "error_frame", "status"]), SiblingFirst),
        row("error frame after lifecycle",      Streams,   ended(&[d.lifecycle, d.error]),             Told(503),    Failure(&["overloaded", "error_frame", "status"]), SiblingFirst),
        row("error frame after content",        Streams,   ended(&[d.content, d.error, d.end]),        BrokenOff,    Failure(&["overloaded", "error_frame", "status"]), SiblingFirst),
        row("200 with HTML",                    Both,      answer(200, &html, "<html>"),               Told(503),    Failure(&["bad_body"]),          SiblingFirst),
        row("200 with null",                    Both,      json(200, "null"),                          Told(503),    Failure(&["bad_body"]),          SiblingFirst),
        row("200 with half a document",         Both,      json(200, "{\"choices\":["),                Told(503),    Failure(&["bad_body"]),          SiblingFirst),
        row("200 without a byte",               Both,      json(200, ""),                              Told(503),    Failure(&["bad_body"]),          SiblingFirst),
        row("stream without a byte",            Streams,   ended(&[]),                                 Told(503),    Failure(&["truncated"]),         SiblingFirst),
        row("stream of pings",                  Streams,   ended(&[PING, PING]),                       Told(503),    Failure(&["truncated"]),         SiblingFirst),
        row("stream instead of a document",     Documents, ended(&[d.content, d.end]),                 Told(503),    Failure(&["bad_body"]),          SiblingFirst),
        row("document instead of a stream",     Streams,   json(200, d.whole),                         Told(503),    Failure(&["bad_body"]),          SiblingFirst),

        row("cut before the headers",           Both,      vec![Close],                                Told(503),    Failure(&["truncated"]),         SiblingFirst),
        row("reset before the headers",         Both,      vec![Reset],                                Told(503),    Failure(&["reset"]),             SiblingFirst),
        row("cut after the headers",            Streams,   cut(&[]),                                   Told(503),    Failure(&["truncated"]),         SiblingFirst),
        row("cut in a document",                Documents, half_document(Close),                       Told(503),    Failure(&["truncated"]),         SiblingFirst),
        row("cut after a ping",                 Streams,   cut(&[PING]),                               Told(503),    Failure(&["truncated"]),         SiblingFirst),
        row("cut after lifecycle",              Streams,   cut(&[d.lifecycle]),                        Told(503),    Failure(&["truncated"]),         SiblingFirst),
        row("cut in the first content",         Streams,   cut(&[d.lifecycle, &d.content[..30]]),      Told(503),    Failure(&["truncated"]),         SiblingFirst),
        row("end after lifecycle",              Streams,   ended(&[d.lifecycle]),                      Told(503),    Failure(&["truncated"]),         SiblingFirst),
        row("cut after the first content",      Streams,   cut(&[d.lifecycle, d.content]),             BrokenOff,    Failure(&["truncated"]),         SiblingFirst),
        row("cut in the next content",          Streams,   cut(&[d.content, &d.content[..30]]),        BrokenOff,    Failure(&["truncated"]),         SiblingFirst),
        row("end before the closing frame",     Streams,   ended(&[d.content, d.content]),             BrokenOff,    Failure(&["truncated"]),         SiblingFirst),
        row("cut behind the closing frame",     Streams,   cut(&[d.content, d.end]),                   Relayed(200), Success,                         Again),
        row("silence behind the closing frame", Streams,   silent(then(&[d.content, d.end], Hang)),    Relayed(200), Success,                         Again),
        row("cut in a long document",           Documents, long_document(Close),                       CutShort,     Failure(&["truncated"]),         SiblingFirst),
        row("silence in a long document",       Documents, silent(long_document(Hang)),                CutShort,     Failure(&["stalled"]),           SiblingFirst),
    ];
    if d.protocol != GEMINI.protocol {
        rows.push(row("nothing to say",         Streams,   ended(&[d.lifecycle, d.end]),               Relayed(200), Nothing,                         Again));
    }
    if d.protocol == OPENAI.protocol {
        let quota = r#"{"error":{"code":"insufficient_quota","message":"secret"}}"#;
        rows.extend([
            row("connection refused",               Both,      Fault::Refused,                             Told(503),    Failure(&["connect"]),           SiblingFirst),
            row("name does not resolve",            Both,      Fault::NoName,                              Told(503),    Failure(&["dns", "timeout"]),    SiblingFirst),
            row("no TLS",                           Both,      Fault::NoTls,                               Told(503),    Failure(&["tls"]),               SiblingFirst),
        ]);
        rows.push(row("429 without money",      Both,      json(429, quota),                           Told(503),    HardDown("billing"),             NotThere));
        rows.push(row("quota error frame",      Streams,   ended(&[d.lifecycle, &format!("data: {quota}\n\n")]), Told(503), HardDown("billing"),      NotThere));
    }
    rows
}

/// One row on one protocol, in one of its two settings.
struct Case {
    dialect: &'static Dialect,
    row: Row,
    streams: bool,
    has_sibling: bool,
}

/// The pieces of a running case.
struct Stage {
    agent: Agent,
    /// The lane's provider, where it has one that can be healed.
    a: Option<Upstream>,
    b: Upstream,
}

const NOBODY: &str = "127.0.0.1:1";

impl Case {
    fn title(&self) -> String {
        format!(
            "{} to {}, streams: {}, sibling: {}",
            self.row.fault, self.dialect.protocol, self.streams, self.has_sibling
        )
    }

    /// A good answer that says `text`.
    fn good(&self, text: &str) -> Script {
        let d = self.dialect;
        if self.streams {
            ended(&[d.lifecycle, &d.content.replace("hello", text), d.end])
        } else {
            json(200, &d.whole.replace("hello", text))
        }
    }

    async fn stage(&self) -> Stage {
        let mut bounds = "attempt_timeout_ms: 5000";
        let mut a = None;
        let address: SocketAddr = match &self.row.what {
            Fault::Script(script) | Fault::Silent(script) => {
                if matches!(self.row.what, Fault::Silent(_)) {
                    bounds = SHORT_BOUNDS;
                }
                let upstream = Upstream::start(script.clone()).await;
                a.insert(upstream).address
            }
            // Bound and dropped: nobody listens there.
            Fault::Refused => std::net::TcpListener::bind("127.0.0.1:0")
                .and_then(|listener| listener.local_addr())
                .unwrap(),
            Fault::NoName => NOBODY.parse().unwrap(),
            Fault::NoTls => peer(b"HTTP/1.1 400 X\r\ncontent-length: 0\r\n\r\n").await.0,
        };
        let b = Upstream::start(self.good("other")).await;
        let limits = format!("max_concurrent: 4, max_requests: 100, {bounds}");
        let mut document = Document::new().lane_at("a", address, 1000, &limits);
        if self.has_sibling {
            document = document.lane("b", &b);
        }
        let mut yaml = document
            .rest("allow_private_hosts: [does-not-exist.invalid]")
            .yaml()
            .replace(
                "protocol: openai",
                &format!("protocol: {}", self.dialect.protocol),
            );
        match self.row.what {
            Fault::NoName => yaml = yaml.replace(NOBODY, "does-not-exist.invalid"),
            Fault::NoTls => {
                yaml = yaml.replace(&format!("http://{address}"), &format!("https://{address}"));
            }
            Fault::Script(_) | Fault::Silent(_) | Fault::Refused => {}
        }
        Stage {
            agent: Agent::start(&yaml).await,
            a,
            b,
        }
    }

    async fn play(self) {
        let stage = self.stage().await;
        let agent = &stage.agent;
        let got = self.dialect.ask(self.streams).send(agent.address).await;
        agent.settles().await;
        self.check_seen(&got, &stage);
        self.check_books(agent);
        if let Some(a) = &stage.a {
            a.always(self.good("hello"));
        }
        self.check_next(&stage).await;
    }

    /// The answer was whole or is lost before anything of it went out.
    fn is_rescued(&self) -> bool {
        self.has_sibling && matches!(self.row.alone, Seen::Told(_))
    }

    fn check_seen(&self, got: &Got, stage: &Stage) {
        let case = self.title();
        assert!(!got.body.contains("secret"), "{case}: {got:?}");
        let totals = stage.agent.plane.totals();
        if self.is_rescued() {
            assert_eq!(
                (got.status.as_u16(), got.whole),
                (200, true),
                "{case}: {got:?}"
            );
            assert!(got.body.contains("other"), "{case}: {got:?}");
            assert!(!got.body.contains("hello"), "{case}: {got:?}");
            assert_eq!(got.header("x-lanekeeper-lane"), Some("b"), "{case}");
            assert_eq!(got.header("x-lanekeeper-attempts"), Some("2"), "{case}");
            assert_eq!(
                (totals.ok, totals.failed, totals.failovers),
                (1, 0, 1),
                "{case}"
            );
            return;
        }
        assert_eq!(
            got.header("x-lanekeeper-attempts"),
            Some("1"),
            "{case}: {got:?}"
        );
        assert_eq!(stage.b.hits(), 0, "{case}");
        let failed = match self.row.alone {
            Seen::Told(status) => {
                assert_eq!(
                    (got.status.as_u16(), got.whole),
                    (status, true),
                    "{case}: {got:?}"
                );
                assert_eq!(
                    got.header("content-type"),
                    Some("application/json"),
                    "{case}"
                );
                assert_eq!(got.header("retry-after").is_some(), status != 401, "{case}");
                let told = got.body.to_lowercase();
                assert!(
                    told.contains("message") && !told.contains("<html>"),
                    "{case}: {told}"
                );
                1
            }
            Seen::Relayed(status) => {
                assert_eq!(
                    (got.status.as_u16(), got.whole),
                    (status, true),
                    "{case}: {got:?}"
                );
                0
            }
            Seen::BrokenOff => {
                assert_eq!(
                    (got.status.as_u16(), got.whole),
                    (200, false),
                    "{case}: {got:?}"
                );
                let d = self.dialect;
                let told = got
                    .body
                    .rsplit_once(d.content)
                    .unwrap_or_else(|| panic!("{case}: {got:?}"))
                    .1;
                assert!(told.ends_with("\n\n"), "{case}: {told}");
                assert!(
                    told.starts_with(d.error_event) || told == d.error,
                    "{case}: {told}"
                );
                assert_eq!(told.matches("data: ").count(), 1, "{case}: {told}");
                1
            }
            Seen::CutShort => {
                assert_eq!((got.status.as_u16(), got.whole), (200, false), "{case}");
                assert!(got.body.ends_with('x'), "{case}: nothing is put behind it");
                1
            }
        };
        let ok = u64::from(got.whole && got.status == 200);
        assert_eq!((totals.ok, totals.failed), (ok, failed), "{case}");
    }

    fn check_books(&self, agent: &Agent) {
        let (lane, cell) = (agent.lane("a"), agent.cell("chat", "a"));
        let case = format!("{}: {lane:#}", self.title());
        assert_eq!(
            (&lane["inflight"], &lane["permits_available"]),
            (&0.into(), &4.into()),
            "{case}"
        );
        let spent = u64::from(!matches!(
            self.row.alone,
            Seen::Told(_) | Seen::Relayed(400..)
        ));
        assert_eq!(lane["requests_spent"], spent, "{case}");
        let (ok, failed, client_fault, state, kinds): (_, _, _, _, &[&str]) = match self.row.booked
        {
            Booked::Failure(kinds) => (0, 1, 0, "closed", kinds),
            Booked::HardDown(kind) => (0, 1, 0, "open", &[kind]),
            Booked::ClientFault => (0, 0, 1, "closed", &[]),
            Booked::Nothing => (0, 0, 0, "closed", &[]),
            Booked::Success => (1, 0, 0, "closed", &[]),
        };
        assert_eq!(lane["ok"], ok, "{case}");
        assert_eq!(lane["failed"], failed, "{case}");
        assert_eq!(lane["client_fault"], client_fault, "{case}");
        assert_eq!(cell["state"], state, "{case}");
        assert_eq!(cell["window"]["ok"], ok, "{case}");
        assert_eq!(cell["window"]["failed"], failed, "{case}");
        match cell["cause"]["kind"].as_str() {
            Some(kind) => assert!(kinds.contains(&kind), "{case}"),
            None => assert!(kinds.is_empty(), "{case}"),
        }
        let cooldown = cell["cooldown_remaining_s"].as_f64().unwrap();
        assert_eq!(cooldown > 1500.0, state == "open", "{case}");
        let parked = cell["parked_remaining_s"].as_f64().unwrap();
        let benched = state == "closed" && self.row.next != Next::Again;
        assert_eq!(parked > 0.0, benched, "{case}");
    }

    async fn check_next(&self, stage: &Stage) {
        let got = self
            .dialect
            .ask(self.streams)
            .send(stage.agent.address)
            .await;
        let expected = match (self.row.next, self.has_sibling) {
            (Next::SiblingFirst | Next::NotThere, true) => ("1", Some("b")),
            (Next::Again, _) | (Next::SiblingFirst, false) => ("1", Some("a")),
            (Next::NotThere, false) => ("0", None),
        };
        let route = (
            got.header("x-lanekeeper-attempts").unwrap(),
            got.header("x-lanekeeper-lane"),
        );
        assert_eq!(route, expected, "{}, next request: {got:?}", self.title());
        let healed = stage.a.is_some() || expected.1 == Some("b");
        let served = got.status == 200 && got.whole;
        assert_eq!(
            served,
            healed && expected.1.is_some(),
            "{}: {got:?}",
            self.title()
        );
    }
}

/// Field reports B14, B35, B36, B40, B41, B45 to B48, B52, B55, B100.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_fault_is_seen_booked_and_routed_around_as_its_row_says() {
    let mut cases = Vec::new();
    for dialect in ALL {
        for row in rows(dialect) {
            for (streams, other) in [(false, Of::Streams), (true, Of::Documents)] {
                for has_sibling in [false, true] {
                    if row.of != other {
                        cases.push(Case {
                            dialect,
                            row: row.clone(),
                            streams,
                            has_sibling,
                        });
                    }
                }
            }
        }
    }
    assert!(cases.len() > 500, "{} cases", cases.len());
    let broken: Vec<String> = futures_util::stream::iter(cases)
        .map(|case| async move {
            let title = case.title();
            let played = tokio::spawn(case.play()).await;
            played.err().map(|_| title)
        })
        .buffer_unordered(AT_A_TIME)
        .filter_map(std::future::ready)
        .collect()
        .await;
    assert!(broken.is_empty(), "rows that do not hold: {broken:#?}");
}
