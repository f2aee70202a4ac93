//! A vendor that exists only here, in one file: nothing else in the crate names one, so whatever
//! the agent asks of a vendor is answered for this one too.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use lanekeeper_model::gateway::{BaseUrl, ErrorMeaning, Scheme};
use lanekeeper_protocol::answer::{self, Answer};
use lanekeeper_protocol::error_body::{self, ErrorKind};
use lanekeeper_protocol::frame::{self, FrameKind};
use lanekeeper_protocol::headers::{self, Credential, ProviderHeaders};
use lanekeeper_protocol::json::fields::Fields;
use lanekeeper_protocol::json::filled::filled;
use lanekeeper_protocol::sse::SseReader;
use lanekeeper_protocol::sse::plain::{lone_data, run_of};
use lanekeeper_protocol::usage::{self, Told};
use lanekeeper_protocol::verdict::{self, Disposition, Rules};
use lanekeeper_protocol::{AnswerReading, End, FrameReading, UsageNames};
use lanekeeper_protocol::{Dialect, Operation, Protocol, Vendor};
use lanekeeper_protocol::{endpoint, locate, query};
use serde_json::{Value, json};

/// `{"reply": "..."}` whole, `{"piece": "..."}` in frames, `{"bye": true}` at the end, and
/// `{"fault": {"code": "..."}}` when something is wrong.
#[derive(Debug)]
struct Parrot;

const CHAT: Dialect = Dialect::new(&Parrot, Operation::Chat);

impl Vendor for Parrot {
    fn name(&self) -> &'static str {
        "parrot"
    }

    fn protocol(&self) -> Protocol {
        // A vendor of the crate has an entry of its own in the gateway document.
        Protocol::Openai
    }

    fn telemetry_name(&self) -> &'static str {
        "parrot"
    }

    fn operations(&self) -> &'static [Operation] {
        &[Operation::Chat]
    }

    fn route<'a>(&self, path: &'a str) -> Option<(Operation, Option<Cow<'a, str>>)> {
        (path == "/parrot/speak").then_some((Operation::Chat, None))
    }

    fn endpoint(&self, base: &str, _operation: Operation, model: &str) -> String {
        format!("{base}/speak/{model}")
    }

    fn key_header(&self) -> (&'static str, &'static str) {
        ("x-parrot-key", "Cracker ")
    }

    fn key_parameter(&self) -> Option<&'static str> {
        Some("cracker")
    }

    fn owns_header(&self, name: &str) -> bool {
        name == "x-parrot-key"
    }

    fn required_header(&self) -> Option<(&'static str, &'static str)> {
        Some(("x-parrot-age", "7"))
    }

    fn passes_header(&self, name: &str) -> bool {
        name == "x-parrot-mood"
    }

    fn passes_parameter(&self, name: &str) -> bool {
        name == "beta"
    }

    fn probe(&self, model: &str) -> (Operation, Value) {
        (Operation::Chat, json!({"model": model, "hear": "hi"}))
    }

    fn end(&self) -> End {
        End::Frame
    }

    fn frame(&self, _operation: Operation, _event: Option<&[u8]>, data: &[u8]) -> FrameReading {
        let Ok(document) = serde_json::from_slice::<Fields<'_>>(data) else {
            return FrameReading::Failed;
        };
        if filled(document.get("fault")) {
            FrameReading::Failed
        } else if document.get("bye").is_some() {
            FrameReading::Terminal { content: false }
        } else if filled(document.get("piece")) {
            FrameReading::Content
        } else {
            FrameReading::Lifecycle
        }
    }

    fn is_plain(&self, raw: &[u8]) -> bool {
        lone_data(raw).is_some_and(|data| data.starts_with(b"{\"piece\":"))
    }

    fn plain_run(&self, raw: &[u8]) -> usize {
        run_of(raw, |frame| self.is_plain(frame))
    }

    fn answer(&self, _operation: Operation, document: &Fields<'_>) -> Option<AnswerReading> {
        if filled(document.get("fault")) {
            return Some(AnswerReading::Failed);
        }
        let reply = document.get("reply")?;
        Some(AnswerReading::good_if(filled(Some(reply))))
    }

    fn usage(&self) -> &'static UsageNames {
        &UsageNames {
            scopes: &[],
            model: "bird",
            usage: "counted",
            tokens: None,
            input: &["heard"],
            output: &["spoken"],
        }
    }

    fn known_code(&self, _status: u16, code: &str) -> Option<ErrorMeaning> {
        (code == "beak_full").then_some(ErrorMeaning::ContextLength)
    }

    fn status_of(&self, code: &str) -> Option<u16> {
        (code == "asleep").then_some(503)
    }

    fn error_document(&self, kind: &ErrorKind, request_id: &str) -> Value {
        json!({"fault": {"code": kind.code(), "text": kind.message(), "request": request_id}})
    }

    fn error_event(&self, kind: &ErrorKind, request_id: &str) -> String {
        format!(
            "event: squawk\ndata: {}\n\n",
            self.error_document(kind, request_id)
        )
    }

    fn request_id_header(&self) -> Option<&'static str> {
        Some("x-parrot-request")
    }

    fn model_entry(&self, name: &str) -> Value {
        json!({"bird": name})
    }

    fn model_list(&self, entries: Vec<Value>) -> Value {
        json!({"birds": entries})
    }
}

static NO_MAP: BTreeMap<String, ErrorMeaning> = BTreeMap::new();

fn rules() -> Rules<'static> {
    Rules {
        vendor: &Parrot,
        error_map: &NO_MAP,
        passthrough: false,
    }
}

#[test]
fn requests_are_read_and_sent() {
    let located = locate::locate(br#"{"model":"grey","hear":"hi"}"#).unwrap();
    assert_eq!(located.model_name, "grey");
    assert!(locate::model_names(&Parrot, b"{}").unwrap().is_empty());
    assert_eq!(endpoint::path("/zoo/", CHAT, "grey"), "/zoo/speak/grey");

    let base = BaseUrl {
        scheme: Scheme::Https,
        host: "zoo.example".to_owned(),
        port: 443,
        path_prefix: "/zoo".to_owned(),
    };
    let provider = ProviderHeaders::new(&Parrot, &base, &[], Some("SECRET")).unwrap();
    let mut caller = HeaderMap::new();
    caller.insert("x-parrot-key", HeaderValue::from_static("Cracker MINE"));
    caller.insert("x-goog-api-key", HeaderValue::from_static("OTHER"));
    caller.insert("x-parrot-mood", HeaderValue::from_static("good"));
    caller.insert("x-parrot-cage", HeaderValue::from_static("open"));
    let own = headers::upstream_request(&caller, &provider, Credential::Own);
    assert_eq!(own["x-parrot-key"], "Cracker SECRET");
    assert_eq!(own["x-parrot-age"], "7");
    assert_eq!(own["x-parrot-mood"], "good");
    assert!(!own.contains_key("x-parrot-cage"));
    assert!(!own.contains_key("x-goog-api-key"));
    let passed = headers::upstream_request(&caller, &provider, Credential::Passthrough);
    assert_eq!(passed["x-parrot-key"], "Cracker MINE");
    assert!(!passed.contains_key("x-goog-api-key"));

    let asked = "cracker=MINE&key=OTHER&loud=1&beta=true";
    let sent = |credential| query::upstream_query(asked, CHAT, credential);
    assert_eq!(sent(Credential::Own).as_deref(), Some("beta=true"));
    assert_eq!(
        sent(Credential::Passthrough).as_deref(),
        Some("cracker=MINE&beta=true")
    );

    let (operation, body) = Parrot.probe("grey");
    assert!(Parrot.operations().contains(&operation));
    let body = body.to_string();
    assert_eq!(locate::locate(body.as_bytes()).unwrap().model_name, "grey");
}

#[test]
fn streams_are_judged_frame_by_frame() {
    let piece = "data: {\"piece\":\"a\"}\n\n";
    let stream = format!(
        ": awake\n\ndata: {{\"bird\":\"grey\"}}\n\n{piece}{piece}data: {{\"bye\":true}}\n\n\
         data: {{\"fault\":{{\"code\":\"asleep\"}}}}\n\n"
    );
    let mut reader = SseReader::new();
    reader.push(Bytes::from(stream));
    let mut kinds = Vec::new();
    while let Some(frame) = reader.next_frame().unwrap() {
        let kind = frame::classify(rules(), CHAT, &frame);
        assert_eq!(frame::watch(rules(), CHAT, &frame), kind);
        kinds.push(kind);
    }
    let [first, second, third, fourth, fifth, FrameKind::Error(_)] = &kinds[..] else {
        panic!("{kinds:?}");
    };
    assert_eq!(
        [first, second, third, fourth, fifth],
        [
            &FrameKind::Ping,
            &FrameKind::Lifecycle,
            &FrameKind::Content,
            &FrameKind::Content,
            &FrameKind::Terminal { content: false },
        ]
    );
    let run = format!("{piece}{piece}data: {{\"bye\":true}}\n\n");
    assert_eq!(frame::plain_run(&Parrot, run.as_bytes()), 2 * piece.len());
    assert!(frame::is_whole(&Parrot, false, true));
    assert!(!frame::is_whole(&Parrot, true, false));
}

#[test]
fn whole_answers_are_judged() {
    let judged = |body: &str| answer::inspect(rules(), CHAT, body.as_bytes());
    assert_eq!(judged(r#"{"reply":"hello"}"#), Answer::Good);
    assert_eq!(judged(r#"{"reply":""}"#), Answer::Empty);
    assert_eq!(judged(r#"{"other":1}"#), Answer::Malformed);
    assert!(matches!(
        judged(r#"{"fault":{"code":"asleep"}}"#),
        Answer::Error(_)
    ));
}

#[test]
fn codes_mean_what_the_vendor_says() {
    let body = br#"{"error":{"code":"beak_full","message":"m"}}"#;
    let verdict = verdict::response(
        rules(),
        StatusCode::BAD_REQUEST,
        &HeaderMap::new(),
        body,
        Duration::ZERO,
    );
    assert_eq!(verdict.disposition, Disposition::ContextLength);
    let frame = r#"{"error":{"code":"asleep","message":"m"}}"#;
    let Answer::Error(verdict) = answer::inspect(rules(), CHAT, frame.as_bytes()) else {
        panic!("an error under status 200");
    };
    assert_eq!(verdict.status, Some(503));
}

#[test]
fn own_errors_have_the_vendors_shape() {
    let kind = ErrorKind::NotFound {
        model: "grey".to_owned(),
    };
    let (status, headers, body) = error_body::render(CHAT, &kind, "r1");
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert_eq!(headers["x-parrot-request"], "r1");
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["fault"]["request"], "r1");
    assert_eq!(body["fault"]["text"], kind.message());
    let event = error_body::stream_event(CHAT, &kind, "r1");
    assert!(event.starts_with(b"event: squawk\ndata: {\"fault\":"));
}

#[test]
fn tokens_are_counted_by_the_vendors_names() {
    let body = br#"{"bird":"grey","reply":"hi","counted":{"heard":3,"spoken":4}}"#;
    let expected = Told {
        model: Some("grey".to_owned()),
        input_tokens: Some(3),
        output_tokens: Some(4),
    };
    assert_eq!(usage::read(&Parrot, body), expected);
}
