//! Every protocol as its provider speaks it: the frames of a good answer, the error inside a
//! stream, and how a caller asks.

use crate::caller::{Ask, chat};
use crate::gateway::{Agent, Document};
use crate::upstream::{Script, Step, Upstream, chunk, json, stream_end, stream_head};

/// One protocol on the wire. The frames are whole, each with its blank line.
pub(crate) struct Dialect {
    /// The provider's protocol in the gateway document.
    pub(crate) protocol: &'static str,
    path: &'static str,
    stream_path: &'static str,
    /// Says that an answer begins, and nothing of it.
    pub(crate) lifecycle: &'static str,
    /// One piece of the answer.
    pub(crate) content: &'static str,
    /// The frames of a good end.
    pub(crate) end: &'static str,
    /// The frames of an end by the length limit.
    pub(crate) capped_end: &'static str,
    /// "Overloaded" inside a stream.
    pub(crate) error: &'static str,
    /// How an error event that the agent makes begins.
    pub(crate) error_event: &'static str,
    /// A good answer in one piece.
    pub(crate) whole: &'static str,
    /// "Overloaded" in one piece.
    pub(crate) whole_error: &'static str,
}

pub(crate) const OPENAI: Dialect = Dialect {
    protocol: "openai",
    path: "/v1/chat/completions",
    stream_path: "/v1/chat/completions",
    lifecycle: crate::upstream::ROLE,
    content: "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hello\"},\"finish_reason\":null}]}\n\n",
    end: "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
    capped_end: "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n",
    error: "data: {\"error\":{\"code\":503,\"message\":\"overloaded\"},\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"error\"}]}\n\n",
    error_event: "data: {\"error\":{",
    whole: r#"{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}]}"#,
    whole_error: r#"{"error":{"message":"overloaded","type":"server_error","code":"server_error"}}"#,
};

pub(crate) const RESPONSES: Dialect = Dialect {
    protocol: "responses",
    path: "/v1/responses",
    stream_path: "/v1/responses",
    lifecycle: "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"status\":\"in_progress\",\"error\":null,\"output\":[]}}\n\nevent: response.in_progress\ndata: {\"type\":\"response.in_progress\",\"response\":{\"id\":\"r\",\"status\":\"in_progress\"}}\n\n",
    content: "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"hello\"}\n\n",
    end: "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"status\":\"completed\",\"error\":null}}\n\n",
    capped_end: "event: response.incomplete\ndata: {\"type\":\"response.incomplete\",\"response\":{\"id\":\"r\",\"status\":\"incomplete\",\"error\":null,\"incomplete_details\":{\"reason\":\"max_output_tokens\"}}}\n\n",
    error: "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"id\":\"r\",\"status\":\"failed\",\"error\":{\"code\":\"server_error\",\"message\":\"overloaded\"}}}\n\n",
    error_event: "event: response.failed\ndata: {",
    whole: r#"{"id":"r","status":"completed","error":null,"output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"hello"}]}]}"#,
    whole_error: r#"{"id":"r","status":"failed","error":{"code":"rate_limit_exceeded","message":"slow down"},"output":[]}"#,
};

pub(crate) const ANTHROPIC: Dialect = Dialect {
    protocol: "anthropic",
    path: "/v1/messages",
    stream_path: "/v1/messages",
    lifecycle: "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[],\"model\":\"x\",\"usage\":{\"input_tokens\":1,\"output_tokens\":0}}}\n\n",
    content: "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hello\"}}\n\n",
    end: "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":1}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
    capped_end: "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"max_tokens\"},\"usage\":{\"output_tokens\":1}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
    error: "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
    error_event: "event: error\ndata: {",
    whole: r#"{"id":"m","type":"message","role":"assistant","content":[{"type":"text","text":"hello"}],"stop_reason":"end_turn"}"#,
    whole_error: r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
};

pub(crate) const GEMINI: Dialect = Dialect {
    protocol: "gemini",
    path: "/v1beta/models/chat:generateContent",
    stream_path: "/v1beta/models/chat:streamGenerateContent?alt=sse",
    lifecycle: "data: {\"usageMetadata\":{\"promptTokenCount\":3}}\n\n",
    content: "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"hello\"}]}}]}\n\n",
    end: "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\".\"}]},\"finishReason\":\"STOP\"}]}\n\n",
    capped_end: "data: {\"candidates\":[{\"finishReason\":\"MAX_TOKENS\"}]}\n\n",
    error: "data: {\"error\":{\"code\":503,\"message\":\"overloaded\",\"status\":\"UNAVAILABLE\"}}\n\n",
    error_event: "data: {\"error\":{",
    whole: r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"hello"}]},"finishReason":"STOP"}]}"#,
    whole_error: r#"{"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}"#,
};

pub(crate) const COHERE: Dialect = Dialect {
    protocol: "cohere",
    path: "/v2/chat",
    stream_path: "/v2/chat",
    lifecycle: "event: message-start\ndata: {\"id\":\"1\",\"type\":\"message-start\",\"delta\":{\"message\":{\"role\":\"assistant\"}}}\n\n",
    content: "event: content-delta\ndata: {\"type\":\"content-delta\",\"index\":0,\"delta\":{\"message\":{\"content\":{\"text\":\"hello\"}}}}\n\n",
    end: "event: message-end\ndata: {\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"COMPLETE\"}}\n\n",
    capped_end: "event: message-end\ndata: {\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"MAX_TOKENS\"}}\n\n",
    error: "event: message-end\ndata: {\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"ERROR\",\"error\":\"overloaded\"}}\n\n",
    error_event: "event: message-end\ndata: {",
    whole: r#"{"id":"1","message":{"role":"assistant","content":[{"type":"text","text":"hello"}]},"finish_reason":"COMPLETE"}"#,
    whole_error: r#"{"id":"1","message":{"role":"assistant","content":[]},"finish_reason":"ERROR"}"#,
};

pub(crate) const ALL: [&Dialect; 5] = [&OPENAI, &RESPONSES, &ANTHROPIC, &GEMINI, &COHERE];

impl Dialect {
    /// A request to the pool `chat`.
    pub(crate) fn ask(&self, stream: bool) -> Ask {
        chat("chat", stream).at(if stream { self.stream_path } else { self.path })
    }

    /// A plane whose lanes all speak this protocol.
    pub(crate) async fn agent(&self, document: &Document) -> Agent {
        let protocol = format!("protocol: {}", self.protocol);
        Agent::start(&document.yaml().replace("protocol: openai", &protocol)).await
    }

    /// A good answer of either form.
    pub(crate) fn answer(&self, stream: bool) -> Script {
        if stream {
            ended(&[self.lifecycle, self.content, self.end])
        } else {
            json(200, self.whole)
        }
    }

    /// The beginning of a stream, up to its first content.
    pub(crate) fn begun(&self) -> Script {
        vec![stream_head(), chunk(self.lifecycle), chunk(self.content)]
    }

    /// A provider that says hello, streaming.
    pub(crate) async fn good_stream(&self) -> Upstream {
        Upstream::start(self.answer(true)).await
    }
}

/// An event stream of these frames, and its regular end.
pub(crate) fn ended(frames: &[&str]) -> Script {
    let mut script = cut(frames);
    script.pop();
    script.push(stream_end());
    script
}

/// An event stream of these frames, and then the connection is gone.
pub(crate) fn cut(frames: &[&str]) -> Script {
    let mut script = vec![stream_head()];
    script.extend(frames.iter().map(|frame| chunk(frame)));
    script.push(Step::Close);
    script
}
