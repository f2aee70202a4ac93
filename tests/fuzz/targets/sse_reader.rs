//! A stream's frames are its bytes, whole and in order, however the network cut them.

#![no_main]

use std::collections::VecDeque;

use bytes::Bytes;
use lanekeeper_protocol::sse::{Frame, SseReader};
use libfuzzer_sys::fuzz_target;

/// The frames of a stream that came in chunks of these sizes, over and over, and the bytes that
/// were handed out when all of them were kept.
fn read(stream: &[u8], sizes: &[usize]) -> (Vec<Bytes>, Vec<u8>) {
    let mut reader = SseReader::new();
    let mut frames = Vec::new();
    let mut queue = VecDeque::new();
    let mut rest = stream;
    let mut sizes = sizes.iter().cycle();
    while !rest.is_empty() {
        let size = sizes.next().map_or(rest.len(), |size| *size);
        let (chunk, after) = rest.split_at(size.clamp(1, rest.len()));
        rest = after;
        reader.push(Bytes::copy_from_slice(chunk));
        while let Some(frame) = reader.next_frame().expect("shorter than the limit") {
            _ = (frame.event(), frame.data());
            reader.keep();
            frames.push(frame.raw);
        }
        reader.hand_out(&mut queue);
    }
    if let Some(frame) = reader.finish() {
        reader.keep();
        frames.push(frame.raw);
    }
    reader.hand_out(&mut queue);
    (frames, Vec::from(queue).concat())
}

/// What the frames say.
fn events(frames: &[Bytes]) -> Vec<(Option<Vec<u8>>, Option<Vec<u8>>)> {
    frames
        .iter()
        .map(|raw| {
            let frame = Frame { raw: raw.clone() };
            let event = frame.event().map(<[u8]>::to_vec);
            (event, frame.data().map(|data| data.into_owned()))
        })
        .filter(|said| *said != (None, None))
        .collect()
}

/// Longest stream that is cut in two at every byte; longer ones are cut in single bytes only.
const CUT_MAX_BYTES: usize = 192;

fuzz_target!(|input: (Vec<u8>, &[u8])| {
    let (sizes, stream) = input;
    let sizes: Vec<usize> = sizes.into_iter().map(usize::from).collect();
    let (whole, passed) = read(stream, &[]);
    assert_eq!(whole.concat(), stream, "no byte is lost or moved");
    assert_eq!(passed, stream, "what is kept passes unchanged");
    let is_short = stream.len() <= CUT_MAX_BYTES;
    let every_cut = (1..stream.len())
        .filter(|_| is_short)
        .map(|cut| vec![cut, stream.len()]);
    for sizes in [vec![1], sizes].into_iter().chain(every_cut) {
        let (cut, passed) = read(stream, &sizes);
        assert_eq!(cut.concat(), stream);
        // A cut within CR LF may leave the LF to the next frame, where it means nothing.
        assert_eq!(
            events(&cut),
            events(&whole),
            "the cuts of the network decide nothing"
        );
        assert_eq!(passed, stream);
    }
});
