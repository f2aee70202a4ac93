//! A caller: one request, and everything that came back, also when it broke off.

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;

#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
    /// The body ended the way HTTP says a whole one ends.
    pub(crate) ended: bool,
    /// It did, and the connection did not end with it, as it does behind an error event.
    pub(crate) whole: bool,
}

/// What any event that may end an answer in failure has.
const MARKS: [&str; 5] = [
    "\"error\":\"",
    "event: error",
    "response.failed",
    "\"finish_reason\":\"error\"",
    "\"error\":{",
];
/// Longest wait for the end of a connection whose answer may have failed.
const CLOSING: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(5);

/// True when the connection ends soon.
async fn closes(sender: &SendRequest<Full<Bytes>>) -> bool {
    let closed = async {
        while !sender.is_closed() {
            tokio::time::sleep(POLL).await;
        }
    };
    tokio::time::timeout(CLOSING, closed).await.is_ok()
}

impl Got {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

pub(crate) struct Ask {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Bytes,
}

/// An answer whose head has come. Dropping it leaves.
pub(crate) struct Reading {
    head: http::response::Parts,
    body: Incoming,
    bytes: Vec<u8>,
    sender: SendRequest<Full<Bytes>>,
}

impl Reading {
    /// Reads the next piece; at the end of the body, whether it ended as a whole one.
    async fn read(&mut self) -> Option<bool> {
        match self.body.frame().await {
            None => Some(true),
            Some(Err(_)) => Some(false),
            Some(Ok(frame)) => {
                let data = frame.data_ref().map_or(&[][..], |data| data.as_ref());
                self.bytes.extend_from_slice(data);
                None
            }
        }
    }

    /// Reads until the body so far ends with `text`.
    pub(crate) async fn until(&mut self, text: &str) {
        while !self.bytes.ends_with(text.as_bytes()) {
            let ended = self.read().await;
            assert_eq!(ended, None, "the body ended before {text}");
        }
    }

    async fn read_all(&mut self) -> bool {
        loop {
            if let Some(whole) = self.read().await {
                return whole;
            }
        }
    }

    /// Reads to the end of a body that is no text.
    pub(crate) async fn rest_of_bytes(mut self) -> Vec<u8> {
        assert!(self.read_all().await, "the body broke off");
        self.bytes
    }

    /// Reads to the end.
    pub(crate) async fn rest(mut self) -> Got {
        let ended = self.read_all().await;
        let body = String::from_utf8(self.bytes).unwrap();
        let lower = body.to_ascii_lowercase();
        let streams = self
            .head
            .headers
            .get("content-type")
            .is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"));
        let is_suspect = ended && streams && MARKS.iter().any(|mark| lower.contains(mark));
        let is_over = is_suspect && closes(&self.sender).await;
        Got {
            status: self.head.status,
            headers: self.head.headers,
            whole: ended && !is_over,
            ended,
            body,
        }
    }
}

/// A chat completion request for `model`.
pub(crate) fn chat(model: &str, stream: bool) -> Ask {
    Ask {
        method: Method::POST,
        path: "/v1/chat/completions".to_owned(),
        headers: vec![("content-type", "application/json".to_owned())],
        body: format!(
            r#"{{"messages":[{{"role":"user","content":"hi"}}],"model":"{model}","stream":{stream}}}"#
        )
        .into(),
    }
}

impl Ask {
    pub(crate) fn at(mut self, path: &str) -> Self {
        path.clone_into(&mut self.path);
        self
    }

    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Sends the request on a connection of its own and reads the answer to its end.
    pub(crate) async fn send(self, agent: SocketAddr) -> Got {
        self.begin(agent).await.rest().await
    }

    /// Sends the request and waits for the head of the answer.
    pub(crate) async fn begin(self, agent: SocketAddr) -> Reading {
        let stream = TcpStream::connect(agent).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        let mut request = Request::builder()
            .method(self.method)
            .uri(self.path)
            .header("host", "agent.test");
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(self.body)).unwrap();
        let response = sender.send_request(request).await.unwrap();
        let (head, body) = response.into_parts();
        Reading {
            head,
            body,
            bytes: Vec::new(),
            sender,
        }
    }
}
