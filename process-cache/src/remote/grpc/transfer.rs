//! Transfers contents: small ones in batches, large ones as streams, compressed if the server
//! supports it.

use std::io::{self, Read, Write};

use bazel_remote_apis::build::bazel::remote::execution::v2 as re;
use bazel_remote_apis::google::bytestream as bs;
use bs::byte_stream_client::ByteStreamClient;
use re::compressor::Value as Compressor;
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::task::JoinSet;
use tonic::{Code, Status};

use super::{Client, MAX_MESSAGE, Server, digest, failure, wire};
use crate::remote::digest::{Function, Wire};
use crate::remote::protocol::{Failure, Offer, Result, Want};

/// Size of a stream's messages, in bytes.
const PIECE: usize = 512 << 10;
/// Shorter contents are not compressed (bytes).
const WORTH: u64 = 1024;
/// The compression level of zstd.
const LEVEL: i32 = 1;
/// Maximal number of concurrent messages and streams.
const AT_ONCE: usize = 4;
/// Bytes of a message for each content in addition to its data.
const OVERHEAD: u64 = 160;

impl Client {
    pub(super) async fn read_blob(&self, wanted: Wire) -> Result<Vec<u8>> {
        let server = self.server().await?;
        if wanted.size + OVERHEAD > server.batch {
            let mut bytes = Vec::new();
            let mut sink = Capped {
                to: &mut bytes,
                left: wanted.size,
            };
            self.stream_in(server, wanted, &mut sink).await?;
            return Ok(bytes);
        }
        let mut found = self.read_batch(server, &[wanted]).await?;
        found.remove(&wanted).ok_or(Failure::Missing)
    }

    pub(super) async fn fetch_all(&self, wants: Vec<Want>) -> Result<()> {
        let server = self.server().await?;
        let mut tasks = Tasks::default();
        let mut batch = Vec::new();
        let mut size = 0;
        for want in wants {
            let takes = want.wire.size + OVERHEAD;
            if takes > server.batch {
                let client = self.clone();
                tasks
                    .add(async move {
                        let Want { wire, mut into } = want;
                        client.stream_in(server, wire, &mut into).await?;
                        Ok(into.finish()?)
                    })
                    .await?;
                continue;
            }
            if size + takes > server.batch {
                let full = std::mem::take(&mut batch);
                tasks.add(self.clone().fetch_batch(server, full)).await?;
                size = 0;
            }
            size += takes;
            batch.push(want);
        }
        if !batch.is_empty() {
            tasks.add(self.clone().fetch_batch(server, batch)).await?;
        }
        tasks.finish().await
    }

    async fn fetch_batch(self, server: Server, wants: Vec<Want>) -> Result<()> {
        let wires: Vec<Wire> = wants.iter().map(|want| want.wire).collect();
        let mut found = self.read_batch(server, &wires).await?;
        for Want { wire, into } in wants {
            let bytes = found.remove(&wire).ok_or(Failure::Missing)?;
            into.whole(bytes.into())?;
        }
        Ok(())
    }

    async fn read_batch(&self, server: Server, wires: &[Wire]) -> Result<FxHashMap<Wire, Vec<u8>>> {
        let compressors = [Compressor::Zstd as i32];
        let request = || re::BatchReadBlobsRequest {
            instance_name: self.instance.to_string(),
            digests: wires.iter().map(|wire| digest(*wire)).collect(),
            acceptable_compressors: compressors[..usize::from(server.zstd)].to_vec(),
            digest_function: server.function_number(),
        };
        let answer = self
            .call(|| async {
                let mut client = self.storage();
                client.batch_read_blobs(self.request(request())).await
            })
            .await
            .map_err(|status| failure(&status))?;
        let mut unpacking = zstd::bulk::Decompressor::new().map_err(local)?;
        let asked: FxHashSet<&Wire> = wires.iter().collect();
        let mut found = FxHashMap::default();
        for response in answer.responses {
            let Some(wire) = response.digest.as_ref().and_then(wire) else {
                continue;
            };
            if !asked.contains(&wire) {
                continue;
            }
            check(response.status.as_ref())?;
            let bytes = if response.compressor == Compressor::Zstd as i32 {
                let size = usize::try_from(wire.size).unwrap_or(usize::MAX);
                // A requested batch fits into a message.
                unpacking
                    .decompress(&response.data, size)
                    .map_err(|_| Failure::Wrong("a blob cannot be unpacked".to_owned()))?
            } else {
                response.data
            };
            found.insert(wire, bytes);
        }
        Ok(found)
    }

    /// Reads a content as a stream. There are no retries: part of it has been written.
    async fn stream_in(
        &self,
        server: Server,
        wanted: Wire,
        to: &mut (dyn Write + Send),
    ) -> Result<()> {
        let compressed = server.zstd && wanted.size >= WORTH;
        let request = bs::ReadRequest {
            resource_name: self.resource(server, wanted, compressed, None),
            ..Default::default()
        };
        let mut client =
            ByteStreamClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE);
        let late = |_| Failure::Slow;
        let mut request = self.request(request);
        // A long stream may continue as long as data arrives.
        request.metadata_mut().remove("grpc-timeout");
        let started = tokio::time::timeout(self.timeout, client.read(request));
        let mut stream = match started.await.map_err(late)? {
            Ok(answer) => answer.into_inner(),
            Err(status) => return Err(failure(&status)),
        };
        let mut sink: Box<dyn Write + Send + '_> = if compressed {
            let unpacked = zstd::stream::write::Decoder::new(to).map_err(unpacking)?;
            Box::new(unpacked)
        } else {
            Box::new(to)
        };
        loop {
            let next = tokio::time::timeout(self.timeout, stream.message());
            match next.await.map_err(late)? {
                Ok(Some(piece)) => write(&mut sink, &piece.data)?,
                Ok(None) => break,
                Err(status) => return Err(failure(&status)),
            }
        }
        sink.flush().map_err(unpacking)
    }

    pub(super) async fn store_all(&self, offers: Vec<Offer>) -> Result<()> {
        let server = self.server().await?;
        let mut tasks = Tasks::default();
        let mut batch = Vec::new();
        let mut size = 0;
        for offer in offers {
            let takes = offer.wire.size + OVERHEAD;
            if offer.wire.size > server.max_blob {
                return Err(Failure::Wrong(
                    "a content is larger than it takes".to_owned(),
                ));
            }
            if takes > server.batch {
                let client = self.clone();
                tasks
                    .add(async move { client.stream_out(server, offer).await })
                    .await?;
                continue;
            }
            if size + takes > server.batch {
                let full = std::mem::take(&mut batch);
                tasks.add(self.clone().store_batch(server, full)).await?;
                size = 0;
            }
            size += takes;
            batch.push(offer);
        }
        if !batch.is_empty() {
            tasks.add(self.clone().store_batch(server, batch)).await?;
        }
        tasks.finish().await
    }

    async fn store_batch(self, server: Server, offers: Vec<Offer>) -> Result<()> {
        let mut requests = Vec::with_capacity(offers.len());
        for offer in offers {
            let wire = offer.wire;
            let mut data = Vec::new();
            offer.open()?.read_to_end(&mut data).map_err(local)?;
            let packs = server.zstd_batches && wire.size >= WORTH;
            let (data, compressor) = if packs {
                let packed = zstd::bulk::compress(&data, LEVEL).map_err(local)?;
                (packed, Compressor::Zstd)
            } else {
                (data, Compressor::Identity)
            };
            requests.push(re::batch_update_blobs_request::Request {
                digest: Some(digest(wire)),
                data,
                compressor: compressor as i32,
            });
        }
        let request = || re::BatchUpdateBlobsRequest {
            instance_name: self.instance.to_string(),
            requests: requests.clone(),
            digest_function: server.function_number(),
        };
        let answer = self
            .call(|| async {
                let mut client = self.storage();
                client.batch_update_blobs(self.request(request())).await
            })
            .await
            .map_err(|status| failure(&status))?;
        let mut responses = answer.responses.iter();
        responses.try_for_each(|response| check(response.status.as_ref()))
    }

    async fn stream_out(&self, server: Server, offer: Offer) -> Result<()> {
        let compressed = server.zstd;
        let name = self.resource(server, offer.wire, compressed, Some(&unique()));
        let size = offer.wire.size;
        let plain = offer.open()?;
        let source: Box<dyn Read + Send> = if compressed {
            Box::new(zstd::stream::read::Encoder::new(plain, LEVEL).map_err(local)?)
        } else {
            plain
        };
        let pieces = Pieces {
            source,
            name,
            offset: 0,
            done: false,
        };
        let mut client = ByteStreamClient::new(self.channel.clone());
        let mut request = self.request(tokio_stream::iter(pieces));
        request.metadata_mut().remove("grpc-timeout");
        // Large contents get more time: at least a megabyte a second is expected.
        let limit = self.timeout + std::time::Duration::from_micros(size);
        let written = tokio::time::timeout(limit, client.write(request));
        let written = written.await.map_err(|_| Failure::Slow)?;
        let committed = written.map_err(|status| failure(&status))?;
        let committed = committed.into_inner().committed_size;
        if !compressed && u64::try_from(committed) != Ok(size) {
            return Err(Failure::Wrong(
                "it took only a part of a content".to_owned(),
            ));
        }
        Ok(())
    }

    /// Returns the resource name of a content in the byte-stream service. A writer's name includes
    /// that of its attempt.
    fn resource(
        &self,
        server: Server,
        wire: Wire,
        compressed: bool,
        upload: Option<&str>,
    ) -> String {
        let mut name = String::new();
        if !self.instance.is_empty() {
            name.push_str(&self.instance);
            name.push('/');
        }
        if let Some(upload) = upload {
            name.push_str("uploads/");
            name.push_str(upload);
            name.push('/');
        }
        name.push_str(if compressed {
            "compressed-blobs/zstd/"
        } else {
            "blobs/"
        });
        if server.function == Function::Blake3 {
            name.push_str("blake3/");
        }
        name.push_str(&format!("{}/{}", wire.hex(), wire.size));
        name
    }
}

/// Runs a few tasks concurrently; the first failure ends all.
#[derive(Default)]
struct Tasks(JoinSet<Result<()>>);

impl Tasks {
    async fn add(&mut self, task: impl Future<Output = Result<()>> + Send + 'static) -> Result<()> {
        while self.0.len() >= AT_ONCE {
            self.next().await?;
        }
        self.0.spawn(task);
        Ok(())
    }

    async fn finish(mut self) -> Result<()> {
        while !self.0.is_empty() {
            self.next().await?;
        }
        Ok(())
    }

    async fn next(&mut self) -> Result<()> {
        match self.0.join_next().await {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(error)) => Err(Failure::Local(error.to_string())),
        }
    }
}

/// Accepts a limited number of bytes.
struct Capped<'a> {
    to: &'a mut Vec<u8>,
    left: u64,
}

impl Write for Capped<'_> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let left = self.left.checked_sub(piece.len() as u64);
        self.left = left.ok_or(io::ErrorKind::FileTooLarge)?;
        self.to.extend_from_slice(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends a content as the messages of a stream. A read error ends it early, which the server
/// refuses.
struct Pieces {
    source: Box<dyn Read + Send>,
    name: String,
    offset: i64,
    done: bool,
}

impl Iterator for Pieces {
    type Item = bs::WriteRequest;

    fn next(&mut self) -> Option<bs::WriteRequest> {
        if self.done {
            return None;
        }
        let mut data = Vec::with_capacity(PIECE);
        let read = (&mut self.source).take(PIECE as u64).read_to_end(&mut data);
        if read.is_err() {
            self.done = true;
            return None;
        }
        self.done = data.len() < PIECE;
        let request = bs::WriteRequest {
            // Sent once.
            resource_name: std::mem::take(&mut self.name),
            write_offset: self.offset,
            finish_write: self.done,
            data,
        };
        self.offset += request.data.len() as i64;
        Some(request)
    }
}

fn write(to: &mut (impl Write + ?Sized), bytes: &[u8]) -> Result<()> {
    to.write_all(bytes).map_err(unpacking)
}

#[expect(clippy::needless_pass_by_value, reason = "it is given to map_err")]
fn unpacking(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::StorageFull => Failure::Local(error.to_string()),
        _ => Failure::Wrong(format!("a content is not what it should be: {error}")),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is given to map_err")]
fn local(error: io::Error) -> Failure {
    Failure::Local(error.to_string())
}

fn check(status: Option<&bazel_remote_apis::google::rpc::Status>) -> Result<()> {
    match status {
        Some(status) if status.code != Code::Ok as i32 => {
            let status = Status::new(Code::from_i32(status.code), status.message.clone());
            Err(failure(&status))
        }
        _ => Ok(()),
    }
}

/// Returns a unique name for an upload (a UUID).
fn unique() -> String {
    use std::hash::{BuildHasher, RandomState};
    let random = || RandomState::new().hash_one(std::process::id());
    let (high, low) = (random(), random());
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xfff,
        0x8000 | low >> 48 & 0x3fff,
        low & 0xffff_ffff_ffff
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_in_pieces_is_whole_and_named_once() {
        for length in [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE] {
            let bytes: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
            let pieces = Pieces {
                source: Box::new(io::Cursor::new(bytes.clone())),
                name: "name".to_owned(),
                offset: 0,
                done: false,
            };
            let pieces: Vec<bs::WriteRequest> = pieces.collect();
            let mut whole = Vec::new();
            for (index, piece) in pieces.iter().enumerate() {
                assert_eq!(piece.write_offset, whole.len() as i64);
                assert_eq!(piece.resource_name.is_empty(), index > 0);
                assert_eq!(piece.finish_write, index + 1 == pieces.len());
                whole.extend_from_slice(&piece.data);
            }
            assert_eq!(whole, bytes);
        }
    }

    #[test]
    fn uploads_have_names_of_their_own() {
        let (one, other) = (unique(), unique());
        assert_ne!(one, other);
        assert_eq!(one.len(), 36);
        assert_eq!(one.as_bytes()[14], b'4');
    }
}
