//! Frames of SPDY/3.1: a decoder and an encoder that do no I/O.
//!
//! Each direction of a connection has one of them, since each has one compression context for all its headers.
//! Bytes from the network never make the decoder panic or allocate without bound.

use std::collections::BTreeMap;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::dictionary::dictionary;

/// The most that one frame may carry: clients send pieces of 32 KiB.
const FRAME_SIZE_MAX_BYTES: usize = 1024 * 1024;
/// The most that the headers of one stream may take when decompressed.
const HEADERS_SIZE_MAX_BYTES: usize = 64 * 1024;
const CONTROL: u8 = 0x80;
const VERSION: u16 = 3;
const FLAG_FIN: u8 = 1;
/// The identifier of a stream takes 31 bits.
const STREAM_MASK: u32 = 0x7fff_ffff;

/// Headers: lower-case names with their values.
pub type Headers = BTreeMap<String, String>;

/// What a peer sent that cannot be understood; the connection has to end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpdyError {
    /// Another version of the protocol.
    #[error("a frame of SPDY version {0}, not 3")]
    Version(u16),
    /// A frame larger than is taken.
    #[error("a frame of {0} bytes, more than is taken")]
    TooLarge(usize),
    /// A frame too short for what it should hold.
    #[error("a frame of type {0} is too short")]
    Short(u16),
    /// Headers that cannot be decompressed or read.
    #[error("headers that cannot be read")]
    Headers,
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A new stream.
    SynStream {
        /// Which stream.
        stream: u32,
        /// Its headers.
        headers: Headers,
        /// True if the sender sends nothing more on it.
        fin: bool,
    },
    /// The answer to a new stream.
    SynReply {
        /// Which stream.
        stream: u32,
        /// Its headers.
        headers: Headers,
        /// True if the sender sends nothing more on it.
        fin: bool,
    },
    /// Data on a stream.
    Data {
        /// Which stream.
        stream: u32,
        /// The data.
        data: Vec<u8>,
        /// True if the sender sends nothing more on it.
        fin: bool,
    },
    /// A stream ends at once.
    Reset {
        /// Which stream.
        stream: u32,
        /// Why.
        status: u32,
    },
    /// A question whether the peer is there, or the answer.
    Ping(u32),
    /// No new streams are taken.
    GoAway {
        /// The last stream that was taken.
        last_stream: u32,
    },
    /// Something that says nothing here: settings, windows, further headers.
    Other(u16),
}

/// Bytes to frames.
pub struct Decoder {
    buffer: Vec<u8>,
    inflate: Decompress,
    dictionary: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { buffer: Vec::new(), inflate: Decompress::new(true), dictionary: dictionary() }
    }
}

impl Decoder {
    /// Takes bytes in as they come.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame, if there is one. After an error nothing more can be read.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, SpdyError> {
        let Some((head, rest)) = self.buffer.split_first_chunk::<8>() else { return Ok(None) };
        let [_, _, _, _, flags, one, two, three] = *head;
        let length = usize::try_from(u32::from_be_bytes([0, one, two, three])).unwrap_or(usize::MAX);
        if length > FRAME_SIZE_MAX_BYTES {
            return Err(SpdyError::TooLarge(length));
        }
        let Some(payload) = rest.get(..length).map(<[u8]>::to_vec) else { return Ok(None) };
        let [first, second, third, fourth, ..] = *head;
        self.buffer.drain(..8 + length);
        if first & CONTROL == 0 {
            let stream = u32::from_be_bytes([first, second, third, fourth]);
            return Ok(Some(Frame::Data { stream, data: payload, fin: flags & FLAG_FIN != 0 }));
        }
        let version = u16::from_be_bytes([first & !CONTROL, second]);
        if version != VERSION {
            return Err(SpdyError::Version(version));
        }
        self.control(u16::from_be_bytes([third, fourth]), flags, &payload).map(Some)
    }

    fn control(&mut self, kind: u16, flags: u8, payload: &[u8]) -> Result<Frame, SpdyError> {
        let number = |at: usize| {
            let bytes = payload.get(at..).and_then(|rest| rest.first_chunk::<4>());
            bytes.map(|bytes| u32::from_be_bytes(*bytes)).ok_or(SpdyError::Short(kind))
        };
        let block = |at: usize| payload.get(at..).ok_or(SpdyError::Short(kind));
        let fin = flags & FLAG_FIN != 0;
        Ok(match kind {
            1 => {
                let stream = number(0)? & STREAM_MASK;
                Frame::SynStream { stream, headers: self.headers(block(10)?)?, fin }
            }
            2 => Frame::SynReply { stream: number(0)? & STREAM_MASK, headers: self.headers(block(4)?)?, fin },
            3 => Frame::Reset { stream: number(0)? & STREAM_MASK, status: number(4)? },
            6 => Frame::Ping(number(0)?),
            7 => Frame::GoAway { last_stream: number(0)? & STREAM_MASK },
            8 => {
                // Read all the same: the compression context goes on through it.
                self.headers(block(4)?)?;
                Frame::Other(kind)
            }
            other => Frame::Other(other),
        })
    }

    fn headers(&mut self, block: &[u8]) -> Result<Headers, SpdyError> {
        let plain = self.inflate(block)?;
        read_headers(&plain).ok_or(SpdyError::Headers)
    }

    fn inflate(&mut self, mut block: &[u8]) -> Result<Vec<u8>, SpdyError> {
        let mut plain = Vec::with_capacity(1024);
        loop {
            let (read, written) = (self.inflate.total_in(), plain.len());
            let done = match self.inflate.decompress_vec(block, &mut plain, FlushDecompress::Sync) {
                Ok(Status::StreamEnd) => true,
                Ok(_) => false,
                Err(error) if error.needs_dictionary().is_some() => {
                    self.inflate.set_dictionary(&self.dictionary).map_err(|_| SpdyError::Headers)?;
                    false
                }
                Err(_) => return Err(SpdyError::Headers),
            };
            let taken = usize::try_from(self.inflate.total_in() - read).map_err(|_| SpdyError::Headers)?;
            block = block.get(taken..).ok_or(SpdyError::Headers)?;
            let full = plain.len() == plain.capacity();
            if done || (block.is_empty() && !full) {
                return Ok(plain);
            }
            if plain.len() > HEADERS_SIZE_MAX_BYTES || (taken == 0 && plain.len() == written && !full) {
                return Err(SpdyError::Headers);
            }
            if full {
                plain.reserve(plain.capacity());
            }
        }
    }
}

/// Reads the number of headers, then each name and value with its length; values of one name are joined by zero bytes.
fn read_headers(mut bytes: &[u8]) -> Option<Headers> {
    let mut take = |length: Option<usize>| -> Option<&[u8]> {
        let length = length?;
        let (taken, rest) = bytes.split_at_checked(length)?;
        bytes = rest;
        Some(taken)
    };
    let number = |bytes: &[u8]| usize::try_from(u32::from_be_bytes(bytes.try_into().ok()?)).ok();
    let count = number(take(Some(4))?)?;
    let mut headers = Headers::new();
    for _ in 0..count {
        let length = number(take(Some(4))?);
        let name = String::from_utf8(take(length)?.to_vec()).ok()?.to_lowercase();
        let length = number(take(Some(4))?);
        let value = String::from_utf8(take(length)?.to_vec()).ok()?;
        headers.insert(name, value.split('\0').next().unwrap_or_default().to_owned());
    }
    Some(headers)
}

/// Frames to bytes.
pub struct Encoder {
    deflate: Compress,
}

impl Default for Encoder {
    fn default() -> Self {
        let mut deflate = Compress::new(Compression::default(), true);
        // Only a stream that has begun refuses a dictionary.
        drop(deflate.set_dictionary(&dictionary()));
        Self { deflate }
    }
}

impl Encoder {
    /// The bytes of a frame.
    pub fn encode(&mut self, frame: &Frame) -> Vec<u8> {
        let be = u32::to_be_bytes;
        match frame {
            Frame::SynStream { stream, headers, fin } => {
                let fixed = [be(*stream).as_slice(), &be(0), &[0, 0]].concat();
                self.control_with_headers(1, *fin, fixed, headers)
            }
            Frame::SynReply { stream, headers, fin } => {
                self.control_with_headers(2, *fin, be(*stream).to_vec(), headers)
            }
            Frame::Reset { stream, status } => control(3, 0, &[be(*stream), be(*status)].concat()),
            Frame::Ping(id) => control(6, 0, &be(*id)),
            Frame::GoAway { last_stream } => control(7, 0, &[be(*last_stream), be(0)].concat()),
            Frame::Other(kind) => control(*kind, 0, &[]),
            Frame::Data { stream, data, fin } => {
                let mut bytes = be(*stream & STREAM_MASK).to_vec();
                bytes.push(u8::from(*fin) * FLAG_FIN);
                bytes.extend_from_slice(&length(data));
                bytes.extend_from_slice(data);
                bytes
            }
        }
    }

    fn control_with_headers(&mut self, kind: u16, fin: bool, fixed: Vec<u8>, headers: &Headers) -> Vec<u8> {
        let mut plain = count(headers.len());
        for (name, value) in headers {
            for text in [name, value] {
                plain.extend(count(text.len()));
                plain.extend_from_slice(text.as_bytes());
            }
        }
        let mut payload = fixed;
        self.deflate_into(&plain, &mut payload);
        control(kind, u8::from(fin) * FLAG_FIN, &payload)
    }

    fn deflate_into(&mut self, plain: &[u8], payload: &mut Vec<u8>) {
        let start = self.deflate.total_in();
        let mut rest = plain;
        loop {
            payload.reserve(256);
            // Compression into memory that is there does not fail.
            if self.deflate.compress_vec(rest, payload, FlushCompress::Sync).is_err() {
                return;
            }
            let taken = usize::try_from(self.deflate.total_in() - start).unwrap_or(plain.len());
            rest = plain.get(taken..).unwrap_or_default();
            if rest.is_empty() && payload.len() < payload.capacity() {
                return;
            }
        }
    }
}

fn control(kind: u16, flags: u8, payload: &[u8]) -> Vec<u8> {
    let [high, low] = VERSION.to_be_bytes();
    let mut bytes = vec![high | CONTROL, low];
    bytes.extend_from_slice(&kind.to_be_bytes());
    bytes.push(flags);
    bytes.extend_from_slice(&length(payload));
    bytes.extend_from_slice(payload);
    bytes
}

/// The length of a frame in three bytes.
fn length(payload: &[u8]) -> [u8; 3] {
    let [_, one, two, three] = u32::try_from(payload.len()).unwrap_or(0).to_be_bytes();
    [one, two, three]
}

fn count(number: usize) -> Vec<u8> {
    u32::try_from(number).unwrap_or(0).to_be_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> Headers {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn decode_all(decoder: &mut Decoder, bytes: &[u8], piece: usize) -> Result<Vec<Frame>, SpdyError> {
        let mut frames = Vec::new();
        for piece in bytes.chunks(piece.max(1)) {
            decoder.receive(piece);
            while let Some(frame) = decoder.next_frame()? {
                frames.push(frame);
            }
        }
        Ok(frames)
    }

    fn check(frames: &[Frame], piece: usize) {
        let mut encoder = Encoder::default();
        let bytes: Vec<u8> = frames.iter().flat_map(|frame| encoder.encode(frame)).collect();
        assert_eq!(decode_all(&mut Decoder::default(), &bytes, piece), Ok(frames.to_vec()));
    }

    #[test]
    fn a_233_frames_survive_whatever_the_pieces_are() {
        let frames = [
            Frame::SynStream { stream: 1, headers: headers(&[("streamtype", "error"), ("port", "80")]), fin: false },
            Frame::SynReply { stream: 1, headers: headers(&[]), fin: true },
            Frame::SynStream { stream: 3, headers: headers(&[("streamtype", "data"), ("port", "80")]), fin: true },
            Frame::Data { stream: 3, data: vec![7; 70_000], fin: true },
            Frame::Ping(5),
            Frame::Reset { stream: 3, status: 5 },
            Frame::GoAway { last_stream: 3 },
        ];
        for piece in [1, 7, 100_000] {
            check(&frames, piece);
        }
    }

    #[test]
    fn the_headers_of_a_go_client_are_read() {
        // Made by compress/zlib of Go's kind (Python's zlib here): dictionary, then a sync flush.
        let block = [
            0x78, 0xf9, 0xe3, 0xc6, 0xa7, 0xc2, 0x02, 0xa6, 0x23, 0x46, 0x70, 0x3a, 0x2b, 0x29, 0x4a, 0x4d, 0xcc, 0x85,
            0x16, 0x25, 0xac, 0xa9, 0xa0, 0x80, 0x06, 0x00, 0x00, 0x00, 0xff, 0xff,
        ];
        let frame = control(1, 0, &[&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], &block].concat());
        let frames = decode_all(&mut Decoder::default(), &frame, 1000);
        let expected = Frame::SynStream { stream: 1, headers: headers(&[("streamtype", "error")]), fin: false };
        assert_eq!(frames, Ok(vec![expected]));
    }

    #[test]
    fn frames_that_cannot_be_are_refused() {
        let result = |bytes: &[u8]| decode_all(&mut Decoder::default(), bytes, 1000);
        assert_eq!(result(&[0x80, 2, 0, 1, 0, 0, 0, 0]), Err(SpdyError::Version(2)));
        assert_eq!(result(&[0x80, 3, 0, 1, 0, 0xff, 0xff, 0xff]), Err(SpdyError::TooLarge(0xff_ffff)));
        assert_eq!(result(&[0x80, 3, 0, 6, 0, 0, 0, 0]), Err(SpdyError::Short(6)));
        assert_eq!(result(&control(1, 0, &[0; 30])), Err(SpdyError::Headers));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), kind in 0u8..10) {
            drop(decode_all(&mut Decoder::default(), &bytes, 13));
            drop(decode_all(&mut Decoder::default(), &control(u16::from(kind), 0, &bytes), 1000));
        }
    }
}
