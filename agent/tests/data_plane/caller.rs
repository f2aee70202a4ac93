//! A caller: one request, and everything that came back, also when it broke off.

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use tokio::net::TcpStream;

#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
    /// The body ended the way HTTP says a whole one ends.
    pub(crate) whole: bool,
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
        let (head, mut body) = response.into_parts();
        let mut bytes = Vec::new();
        let whole = loop {
            match body.frame().await {
                None => break true,
                Some(Err(_)) => break false,
                Some(Ok(frame)) => {
                    bytes.extend_from_slice(frame.data_ref().map_or(&[], |data| data.as_ref()));
                }
            }
        };
        Got {
            status: head.status,
            headers: head.headers,
            body: String::from_utf8(bytes).unwrap(),
            whole,
        }
    }
}
