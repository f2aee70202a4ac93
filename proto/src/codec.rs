//! How messages are put on the wire: protobuf as everywhere, in buffers that fit what a session
//! sends all day. A server holds a pair of them for each of its thousands of sessions, and most
//! hold an acknowledgement and a short report.

use std::marker::PhantomData;

use prost::Message;
use tonic::codec::{BufferSettings, Codec};
use tonic_prost::ProstCodec;

/// Room of a new buffer, in bytes. It grows with the messages that pass through it, and stays so.
const BUFFER_BYTES: usize = 1024;
/// Encoded bytes that are handed to the connection at once.
const YIELD_BYTES: usize = 32 * 1024;

/// Encodes `E` and decodes `D`.
#[derive(Debug)]
pub struct FleetCodec<E, D>(PhantomData<(E, D)>);

impl<E, D> Default for FleetCodec<E, D> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<E, D> Codec for FleetCodec<E, D>
where
    E: Message + 'static,
    D: Message + Default + 'static,
{
    type Encode = E;
    type Decode = D;
    type Encoder = <ProstCodec<E, D> as Codec>::Encoder;
    type Decoder = <ProstCodec<E, D> as Codec>::Decoder;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<E, D>::raw_encoder(settings())
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<E, D>::raw_decoder(settings())
    }
}

fn settings() -> BufferSettings {
    BufferSettings::new(BUFFER_BYTES, YIELD_BYTES)
}
