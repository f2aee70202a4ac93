//! What the server says on a session, as the frames of a response.
//!
//! The transport's own encoder keeps one buffer for each session that grows to the longest message
//! and stays so. The longest one is the document, which all sessions of a gateway are sent: here it
//! goes out as the one copy that they share, and every other message in a buffer of its own length
//! that is gone once it is written.

use std::convert::Infallible;

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::stream;
use http::HeaderMap;
use http_body_util::StreamBody;
use hyper::body::Frame;
use lanekeeper_proto::wire::{self, server_message};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};
use tokio::sync::mpsc;
use tonic::body::Body;
use tonic::{Code, Status};

use crate::hosting::writer::Item;

/// Number of [`wire::ServerMessage`]'s field that holds a push.
const PUSH_FIELD: u32 = 2;
/// Number of [`wire::ConfigPush`]'s field that holds the document.
const DOCUMENT_FIELD: u32 = 3;
/// Bytes before each message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// The body that says `messages` and, when no more come, how the stream ended.
pub(crate) fn body(messages: mpsc::Receiver<Item>) -> Body {
    let outbound = Outbound {
        messages,
        document: None,
        is_over: false,
    };
    Body::new(StreamBody::new(stream::unfold(outbound, Outbound::next)))
}

struct Outbound {
    messages: mpsc::Receiver<Item>,
    /// The rest of the message that was begun.
    document: Option<Bytes>,
    is_over: bool,
}

impl Outbound {
    async fn next(mut self) -> Option<(Result<Frame<Bytes>, Infallible>, Self)> {
        if let Some(document) = self.document.take() {
            return Some((Ok(Frame::data(document)), self));
        }
        if self.is_over {
            return None;
        }
        let frame = match self.messages.recv().await {
            Some(Ok(message)) => {
                let (begin, document) = encode(message);
                self.document = document;
                Frame::data(begin)
            }
            Some(Err(status)) => self.end(&status),
            None => self.end(&Status::new(Code::Ok, "")),
        };
        Some((Ok(frame), self))
    }

    fn end(&mut self, status: &Status) -> Frame<Bytes> {
        self.is_over = true;
        let mut trailers = HeaderMap::new();
        if let Err(unfit) = status.add_header(&mut trailers) {
            tracing::debug!(%unfit, "a status does not fit into trailers");
        }
        Frame::trailers(trailers)
    }
}

/// A message with its prefix; a push without its document, which is the end of it.
fn encode(message: wire::ServerMessage) -> (Bytes, Option<Bytes>) {
    match message.message {
        Some(server_message::Message::ConfigPush(mut push)) if !push.document.is_empty() => {
            let document = std::mem::take(&mut push.document);
            let push_len = push.encoded_len()
                + key_len(DOCUMENT_FIELD)
                + encoded_len_varint(document.len() as u64)
                + document.len();
            let message_len = key_len(PUSH_FIELD) + encoded_len_varint(push_len as u64) + push_len;
            let mut begin = prefixed(message_len, PREFIX_BYTES + message_len - document.len());
            encode_key(PUSH_FIELD, WireType::LengthDelimited, &mut begin);
            encode_varint(push_len as u64, &mut begin);
            push.encode_raw(&mut begin);
            encode_key(DOCUMENT_FIELD, WireType::LengthDelimited, &mut begin);
            encode_varint(document.len() as u64, &mut begin);
            (begin.freeze(), Some(document))
        }
        message => {
            let message = wire::ServerMessage { message };
            let message_len = message.encoded_len();
            let mut whole = prefixed(message_len, PREFIX_BYTES + message_len);
            message.encode_raw(&mut whole);
            (whole.freeze(), None)
        }
    }
}

/// A buffer for `room` bytes that begins with the prefix of a message.
fn prefixed(message_len: usize, room: usize) -> BytesMut {
    let mut buffer = BytesMut::with_capacity(room);
    buffer.put_u8(0);
    // No message is longer than `MESSAGE_BYTES_MAX`.
    buffer.put_u32(u32::try_from(message_len).unwrap_or(u32::MAX));
    buffer
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use lanekeeper_proto::message::{ConfigPush, FromServer, ReportAck};

    fn push(document: &'static str) -> FromServer {
        FromServer::ConfigPush(ConfigPush {
            nonce: 7,
            revision: 300,
            document: Bytes::from_static(document.as_bytes()),
            hash: "hash".to_owned(),
        })
    }

    fn ack() -> FromServer {
        FromServer::ReportAck(ReportAck {
            seq: 300,
            want_dense: true,
            next_interval: None,
            refused: Some("why".to_owned()),
            transitions_stored: 0,
        })
    }

    async fn said(items: Vec<Item>) -> (Vec<Bytes>, HeaderMap) {
        let (writer, reader) = mpsc::channel(8);
        for item in items {
            writer.send(item).await.unwrap();
        }
        drop(writer);
        let mut body = body(reader);
        let mut data = Vec::new();
        loop {
            match body.frame().await.unwrap().unwrap().into_data() {
                Ok(bytes) => data.push(bytes),
                Err(frame) => {
                    assert!(body.frame().await.is_none(), "nothing follows the end");
                    return (data, frame.into_trailers().unwrap());
                }
            }
        }
    }

    #[tokio::test]
    async fn what_is_said_reads_as_any_encoder_would_have_written_it() {
        let document = "{\"a\": 1}";
        let messages = [push(document), push(""), ack()];
        let sent = messages.iter().cloned().map(|it| Ok(it.into()));
        let (data, trailers) = said(sent.collect()).await;
        assert_eq!(trailers.get("grpc-status").unwrap(), "0");
        let mut bytes: &[u8] = &data.concat();
        for message in messages {
            let (prefix, rest) = bytes.split_at(PREFIX_BYTES);
            assert_eq!(prefix[0], 0);
            let len = u32::from_be_bytes(prefix[1..].try_into().unwrap()) as usize;
            let (encoded, rest) = rest.split_at(len);
            let decoded = wire::ServerMessage::decode(encoded).unwrap();
            assert_eq!(FromServer::try_from(decoded).unwrap(), message);
            bytes = rest;
        }
        assert!(bytes.is_empty());
    }

    #[tokio::test]
    async fn a_document_goes_out_as_the_copy_that_all_share() {
        let document = Bytes::from(vec![b' '; 100_000]);
        let push = FromServer::ConfigPush(ConfigPush {
            nonce: 1,
            revision: 1,
            document: document.clone(),
            hash: String::new(),
        });
        let (data, _) = said(vec![Ok(push.into())]).await;
        assert_eq!(data[1].as_ptr(), document.as_ptr());
    }

    #[tokio::test]
    async fn a_failed_stream_ends_with_its_status() {
        let failed = Err(Status::invalid_argument("a second Hello"));
        let (data, trailers) = said(vec![Ok(ack().into()), failed]).await;
        assert_eq!(data.len(), 1);
        assert_eq!(trailers.get("grpc-status").unwrap(), "3");
        assert_eq!(trailers.get("grpc-message").unwrap(), "a%20second%20Hello");
    }
}
