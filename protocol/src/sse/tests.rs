//! Field reports B60, B61, B63: every line ending, every cut, and bounds.

use proptest::prelude::*;

use super::*;

fn read(chunks: &[&[u8]]) -> Vec<Frame> {
    let mut reader = SseReader::new();
    let mut frames = Vec::new();
    for chunk in chunks {
        reader.push(Bytes::copy_from_slice(chunk));
        while let Some(frame) = reader.next_frame().unwrap() {
            frames.push(frame);
        }
    }
    frames.extend(reader.finish());
    frames
}

type Meaning = Vec<(Option<Vec<u8>>, Option<Vec<u8>>)>;

/// What the frames say; left-over line feeds say nothing.
fn meaning(frames: &[Frame]) -> Meaning {
    frames
        .iter()
        .filter(|frame| frame.raw.iter().any(|byte| !matches!(byte, b'\r' | b'\n')))
        .map(|frame| {
            (
                frame.event().map(<[u8]>::to_vec),
                frame.data().map(Cow::into_owned),
            )
        })
        .collect()
}

fn said(event: Option<&str>, data: Option<&str>) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    (
        event.map(|text| text.as_bytes().to_vec()),
        data.map(|text| text.as_bytes().to_vec()),
    )
}

#[test]
fn every_standard_form_is_read() {
    let cases: &[(&str, Meaning)] = &[
        (
            "data: a\n\ndata: b\n\n",
            vec![said(None, Some("a")), said(None, Some("b"))],
        ),
        (
            "data: a\r\n\r\ndata: b\r\n\r\n",
            vec![said(None, Some("a")), said(None, Some("b"))],
        ),
        (
            "data: a\r\rdata: b\r\r",
            vec![said(None, Some("a")), said(None, Some("b"))],
        ),
        ("data:x\n\n", vec![said(None, Some("x"))]),
        ("data:  x\n\n", vec![said(None, Some(" x"))]),
        ("data: a\ndata: b\n\n", vec![said(None, Some("a\nb"))]),
        (
            "data: {}\nevent: error\n\n",
            vec![said(Some("error"), Some("{}"))],
        ),
        (
            "event: error\r\ndata: {}\r\n\r\n",
            vec![said(Some("error"), Some("{}"))],
        ),
        ("\u{feff}data: a\n\n", vec![said(None, Some("a"))]),
        (
            ": ping\n\ndata: a\n\n",
            vec![said(None, None), said(None, Some("a"))],
        ),
        (
            ": c\nevent: e\ndata: a\n\n",
            vec![said(Some("e"), Some("a"))],
        ),
        ("data\n\n", vec![said(None, Some(""))]),
        (
            "data: a\n\n\n\ndata: b\n\n",
            vec![said(None, Some("a")), said(None, Some("b"))],
        ),
        (
            "data: a\n\ndata: no blank line",
            vec![said(None, Some("a")), said(None, Some("no blank line"))],
        ),
        ("data: a", vec![said(None, Some("a"))]),
        ("", vec![]),
    ];
    for (stream, wanted) in cases {
        assert_eq!(meaning(&read(&[stream.as_bytes()])), *wanted, "{stream:?}");
    }
}

#[test]
fn cuts_at_every_byte_change_nothing() {
    let stream = "\u{feff}: hi\r\n\r\nevent: a\r\ndata: \u{4e2d}\u{6587}\r\ndata: 2\r\n\r\n\
                  data: x\r\rdata: y\n\n\n: k\n\nevent:error\ndata:{}\n\nlast: 1\ndata: z";
    let whole = meaning(&read(&[stream.as_bytes()]));
    assert_eq!(whole.len(), 7);
    for cut in 0..=stream.len() {
        let (head, tail) = stream.as_bytes().split_at(cut);
        assert_eq!(meaning(&read(&[head, tail])), whole, "cut at {cut}");
    }
    let bytes: Vec<&[u8]> = stream.as_bytes().chunks(1).collect();
    assert_eq!(meaning(&read(&bytes)), whole);
}

#[test]
fn whole_frames_are_slices_of_the_chunk() {
    let chunk = Bytes::from_static(b"data: a\n\ndata: b\n\n");
    let mut reader = SseReader::new();
    reader.push(chunk.clone());
    let first = reader.next_frame().unwrap().unwrap();
    let second = reader.next_frame().unwrap().unwrap();
    assert_eq!(first.raw.as_ptr(), chunk.as_ptr());
    assert_eq!(second.raw.as_ptr(), chunk[9..].as_ptr());
    assert!(reader.next_frame().unwrap().is_none());
    assert!(reader.is_empty());
}

/// Reads `chunks`, keeps the frames `keeps` says yes to, and hands out after every chunk.
fn pass(chunks: &[&[u8]], keeps: impl Fn(&Frame) -> bool) -> Vec<Bytes> {
    let mut reader = SseReader::new();
    let mut out = VecDeque::new();
    for chunk in chunks {
        reader.push(Bytes::copy_from_slice(chunk));
        while let Some(frame) = reader.next_frame().unwrap() {
            if keeps(&frame) {
                reader.keep();
            }
        }
        reader.hand_out(&mut out);
    }
    if reader.finish().is_some_and(|frame| keeps(&frame)) {
        reader.keep();
    }
    reader.hand_out(&mut out);
    out.into()
}

#[test]
fn frames_of_one_chunk_are_handed_out_as_one_piece() {
    let stream = b"data: a\n\ndata: b\r\n\r\ndata: c\r\rdata: d\n\n";
    assert_eq!(pass(&[stream], |_| true), [&stream[..]]);
    let cut = pass(&[&stream[..12], &stream[12..]], |_| true);
    assert_eq!(cut.len(), 3, "a frame, the one that was cut, and the rest");
    assert_eq!(cut.concat(), stream);
}

#[test]
fn frames_that_are_not_kept_do_not_pass() {
    let stream = b"data: a\n\nbad: 1\n\ndata: b\n\nbad: 2\n\n";
    let keeps = |frame: &Frame| !frame.raw.starts_with(b"bad");
    for cut in 0..=stream.len() {
        let (head, tail) = stream.split_at(cut);
        assert_eq!(
            pass(&[head, tail], keeps).concat(),
            b"data: a\n\ndata: b\n\n"
        );
    }
}

#[test]
fn frames_held_over_several_chunks_are_handed_out_in_order() {
    let mut reader = SseReader::new();
    for chunk in [
        &b"data: a\n\nda"[..],
        b"ta: b\n\ndata: c\n\n",
        b"data: d\n\n",
    ] {
        reader.push(Bytes::copy_from_slice(chunk));
        while reader.next_frame().unwrap().is_some() {
            reader.keep();
        }
    }
    let mut out = VecDeque::new();
    reader.hand_out(&mut out);
    let pieces: Vec<Bytes> = out.into();
    assert_eq!(
        pieces.concat(),
        b"data: a\n\ndata: b\n\ndata: c\n\ndata: d\n\n"
    );
    assert!(reader.is_empty());
}

#[test]
fn frames_that_are_kept_while_more_is_waited_for_leave_the_network_buffer() {
    let stream = b"data: a\n\ndata: b\n\ndata: c\n\ndata: d\n\n";
    for most in [0, 9, 1000] {
        for cut in 0..=stream.len() {
            let mut reader = SseReader::new();
            let mut out = VecDeque::new();
            for chunk in [&stream[..cut], &stream[cut..]] {
                let chunk = Bytes::copy_from_slice(chunk);
                reader.push(chunk.clone());
                while reader.next_frame().unwrap().is_some() {
                    reader.keep();
                }
                reader.detach(most);
                assert!(most < 1000 || chunk.is_empty() || chunk.is_unique());
            }
            reader.hand_out(&mut out);
            assert_eq!(Vec::from(out).concat(), stream, "{most} {cut}");
        }
    }
}

#[test]
fn lines_of_megabytes_are_whole() {
    for len in [70_000, 1_100_000, 4 * 1024 * 1024] {
        let stream = format!("data: {}\n\n", "x".repeat(len));
        let chunks: Vec<&[u8]> = stream.as_bytes().chunks(16_000).collect();
        let frames = read(&chunks);
        assert_eq!(frames.len(), 1);
        assert_eq!(frames[0].raw, stream);
    }
}

#[test]
fn a_frame_without_end_is_an_error_not_a_leak() {
    let chunk = Bytes::from(vec![b'x'; 1024 * 1024]);
    let mut reader = SseReader::new();
    for _ in 0..16 {
        reader.push(chunk.clone());
        assert_eq!(reader.next_frame(), Ok(None));
    }
    reader.push(chunk);
    assert_eq!(reader.next_frame(), Err(FrameTooLong));
    assert!(reader.held_bytes() <= MAX_FRAME_BYTES);
}

proptest! {
    #[test]
    fn raw_bytes_add_up_and_cuts_do_not_matter(
        stream in prop::collection::vec(
            prop::sample::select(vec![
                "data: ", "data:", "event: ", ":", "a", "{}", "\n", "\r", "\r\n", "\n\n", "\r\n\r\n", "\u{e9}",
            ]),
            0..60,
        ),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let stream = stream.concat().into_bytes();
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        ends.sort_unstable();
        ends.push(stream.len());
        let mut from = 0;
        let mut chunks = Vec::new();
        for end in ends {
            chunks.push(&stream[from..end]);
            from = end;
        }
        let cut = read(&chunks);
        let raw: Vec<u8> = cut.iter().flat_map(|frame| frame.raw.to_vec()).collect();
        prop_assert_eq!(&raw, &stream);
        prop_assert_eq!(meaning(&cut), meaning(&read(&[&stream])));
        prop_assert_eq!(pass(&chunks, |_| true).concat(), stream);
    }
}
