//! Through a forward proxy: one that speaks `CONNECT` and then moves bytes.

use super::*;
use crate::upstream::Proxy;
use http::HeaderValue;
use tokio::io::copy_bidirectional;

/// Answers each `CONNECT` with `status`, after a 200 by a tunnel to `port`. Says what it was asked.
async fn proxy(status: &'static str, port: u16) -> (Proxy, mpsc::UnboundedReceiver<String>) {
    let (asked, heads) = mpsc::unbounded_channel();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut caller, _)) = listener.accept().await {
            let asked = asked.clone();
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(caller.read_u8().await.unwrap());
                }
                asked.send(String::from_utf8(head).unwrap()).unwrap();
                let answer = format!("HTTP/1.1 {status}\r\n\r\n");
                caller.write_all(answer.as_bytes()).await.unwrap();
                if status.starts_with("200") {
                    let mut peer = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                    let _ = copy_bidirectional(&mut caller, &mut peer).await;
                }
            });
        }
    });
    let authorization = HeaderValue::from_static("Basic c2VjcmV0");
    let proxy = Proxy::new("127.0.0.1", address.port(), Some(authorization));
    (proxy.unwrap(), heads)
}

async fn answering() -> Peer {
    Peer::start(|_, mut stream| async move {
        let mut request = [0; 1024];
        while stream.read(&mut request).await.is_ok_and(|read| read > 0) {
            stream.write_all(OK).await.unwrap();
        }
    })
    .await
}

#[tokio::test]
async fn request_goes_through_a_tunnel_that_is_kept() {
    let peer = answering().await;
    let (proxy, mut heads) = proxy("200 Connection established", peer.port).await;
    // The name exists nowhere: only the proxy has to know it.
    let target = target_at(Scheme::Http, "llm.invalid", 8443, guard()).through(proxy);
    let client = client();
    for _ in 0..3 {
        let answer = client.send(&target, request, soon()).await.unwrap();
        assert_eq!(text(answer).await, "hi");
    }
    let head = heads.recv().await.unwrap();
    assert!(
        head.starts_with("CONNECT llm.invalid:8443 HTTP/1.1\r\n"),
        "{head}"
    );
    assert!(
        head.to_ascii_lowercase()
            .contains("proxy-authorization: basic c2vjcmv0\r\n"),
        "{head}"
    );
    assert!(heads.try_recv().is_err(), "one tunnel serves all of them");
}

#[tokio::test]
async fn proxy_that_opens_no_tunnel_is_a_failed_connection_that_says_so() {
    for status in [
        "403 Forbidden",
        "407 Proxy Authentication Required",
        "502 Bad Gateway",
    ] {
        let (proxy, _heads) = proxy(status, 9).await;
        let target = target_at(Scheme::Http, "llm.invalid", 443, guard()).through(proxy);
        let error = client().send(&target, request, soon()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Connect, "{status}");
        let text = error.to_string();
        assert!(
            text.contains("proxy") && !text.contains("c2VjcmV0"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn addresses_that_must_not_be_reached_are_not_reached_through_a_proxy_either() {
    let (proxy, mut heads) = proxy("200 OK", 9).await;
    let target = target_at(Scheme::Http, "169.254.169.254", 80, guard()).through(proxy);
    let error = client().send(&target, request, soon()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Blocked);
    assert!(heads.try_recv().is_err(), "the proxy was not asked");
}

#[test]
fn connections_through_different_proxies_are_not_shared() {
    let direct = target_at(Scheme::Https, "llm.test", 443, guard());
    let by = |host: &str, authorization: &'static str| {
        let value = HeaderValue::from_static(authorization);
        let proxy = Proxy::new(host, 1, Some(value)).unwrap();
        direct.clone().through(proxy)
    };
    let all = [direct.clone(), by("a", "x"), by("a", "y"), by("b", "x")];
    for (at, one) in all.iter().enumerate() {
        for other in &all[at + 1..] {
            assert!(one.key() != other.key());
        }
    }
    assert!(by("a", "x").key() == all[1].key());
}
