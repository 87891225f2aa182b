//! A client of the Bazel Remote Execution API, version 2: its action cache and its
//! content-addressable storage (remote-apis, `remote_execution.proto`).
//!
//! pcache's keys are no digests of actions. An entry is stored under the digest of an action
//! without command and input, with pcache's key as its salt. So the action is well-formed for
//! every server. The blob of an entry is the action's standard output, which servers inline on
//! request. The blob next to it is the standard error, inlined likewise. The contents are its
//! output files, which servers that check completeness keep together with it.

mod connect;
mod credentials;
mod transfer;

use std::sync::Arc;
use std::time::Duration;

use bazel_remote_apis::build::bazel::remote::execution::v2 as re;
use prost::Message as _;
use re::action_cache_client::ActionCacheClient;
use re::capabilities_client::CapabilitiesClient;
use re::content_addressable_storage_client::ContentAddressableStorageClient;
use re::digest_function::Value as Digests;
use tokio::sync::OnceCell;
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

pub use self::connect::prepare;
pub(super) use self::connect::{Prepared, connect};
use super::codec::{Key, MAX_PACKED};
use super::digest::{Function, Wire};
use super::protocol::{Backend, Entry, Failure, Offer, Reply, Result, Retries, Want};

/// Maximal size of a message, in bytes; servers may send up to this size.
const MAX_MESSAGE: usize = 32 << 20;
/// Maximal size of a batch if the server sets no limit, in bytes: gRPC's own limit with room for
/// the rest of the message.
const BATCH: u64 = (4 << 20) - (64 << 10);
/// Maximal number of digests per request.
const MANY: usize = 10_000;

/// A client of a server.
#[derive(Debug, Clone)]
pub struct Client {
    channel: Channel,
    headers: MetadataMap,
    instance: Arc<str>,
    /// Time limit for one request.
    timeout: Duration,
    retries: Retries,
    /// Whether to compress contents if possible.
    compress: bool,
    server: Arc<OnceCell<Server>>,
}

/// The capabilities of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Server {
    /// Its digest function.
    pub function: Function,
    /// Whether it accepts entries.
    pub takes_entries: bool,
    /// Whether it supports zstd for streams.
    zstd: bool,
    /// Whether it supports zstd in batches.
    zstd_batches: bool,
    /// Maximal size of a batch, in bytes.
    batch: u64,
    /// The longest content that it accepts (bytes).
    max_blob: u64,
}

impl Client {
    /// Returns the server's capabilities; requested once.
    async fn server(&self) -> Result<Server> {
        self.server
            .get_or_try_init(|| self.capabilities())
            .await
            .copied()
    }

    async fn capabilities(&self) -> Result<Server> {
        let request = || re::GetCapabilitiesRequest {
            instance_name: self.instance.to_string(),
        };
        let found = self
            .call(|| async {
                let mut client = CapabilitiesClient::new(self.channel.clone());
                client.get_capabilities(self.request(request())).await
            })
            .await;
        let found = match found {
            Ok(found) => found,
            // A server need not answer this.
            Err(status) if status.code() == Code::Unimplemented => {
                re::ServerCapabilities::default()
            }
            Err(status) => return Err(failure(&status)),
        };
        Server::of(&found.cache_capabilities.unwrap_or_default(), self.compress)
    }

    async fn find_entry(&self, key: Key, beside: bool) -> Result<Option<Entry>> {
        if let Some(server) = self.server.get() {
            return self.entry_by(key, beside, server.function).await;
        }
        // A function that nearly all servers support. A server that has the entry supports it; its
        // capabilities arrive meanwhile.
        let guess = Function::Sha256;
        let found = self.entry_by(key, beside, guess).await;
        if matches!(found, Ok(Some(_))) {
            let client = self.clone();
            tokio::spawn(async move { drop(client.server().await) });
            return found;
        }
        match self.server().await?.function {
            function if function == guess => found,
            function => self.entry_by(key, beside, function).await,
        }
    }

    async fn entry_by(&self, key: Key, beside: bool, function: Function) -> Result<Option<Entry>> {
        let request = || re::GetActionResultRequest {
            instance_name: self.instance.to_string(),
            action_digest: Some(action(key, function)),
            inline_stdout: true,
            inline_stderr: beside,
            digest_function: number(function),
            ..Default::default()
        };
        let found = self
            .call(|| async {
                let mut client = ActionCacheClient::new(self.channel.clone())
                    .max_decoding_message_size(MAX_MESSAGE);
                client.get_action_result(self.request(request())).await
            })
            .await;
        match found {
            Ok(result) => entry(result, function).map(Some),
            Err(status) if status.code() == Code::NotFound => Ok(None),
            Err(status) => Err(failure(&status)),
        }
    }

    async fn put_entry(&self, key: Key, entry: Entry) -> Result<()> {
        let server = self.server().await?;
        let file = |(index, wire): (usize, &Wire)| re::OutputFile {
            path: index.to_string(),
            digest: Some(digest(*wire)),
            ..Default::default()
        };
        let result = re::ActionResult {
            output_files: entry.contents.iter().enumerate().map(file).collect(),
            stdout_digest: Some(digest(entry.blob)),
            stderr_digest: entry.beside.as_ref().map(|(wire, _)| digest(*wire)),
            ..Default::default()
        };
        let request = || re::UpdateActionResultRequest {
            instance_name: self.instance.to_string(),
            action_digest: Some(action(key, server.function)),
            action_result: Some(result.clone()),
            digest_function: server.function_number(),
            ..Default::default()
        };
        let updated = self
            .call(|| async {
                let mut client = ActionCacheClient::new(self.channel.clone())
                    .max_decoding_message_size(MAX_MESSAGE);
                client.update_action_result(self.request(request())).await
            })
            .await;
        updated.map(drop).map_err(|status| failure(&status))
    }

    async fn find_missing(&self, wires: Vec<Wire>) -> Result<Vec<Wire>> {
        let server = self.server().await?;
        let mut missing = Vec::new();
        for some in wires.chunks(MANY) {
            let request = || re::FindMissingBlobsRequest {
                instance_name: self.instance.to_string(),
                blob_digests: some.iter().map(|wire| digest(*wire)).collect(),
                digest_function: server.function_number(),
            };
            let found = self
                .call(|| async {
                    let mut client = self.storage();
                    client.find_missing_blobs(self.request(request())).await
                })
                .await
                .map_err(|status| failure(&status))?;
            missing.extend(found.missing_blob_digests.iter().filter_map(wire));
        }
        Ok(missing)
    }

    fn storage(&self) -> ContentAddressableStorageClient<Channel> {
        ContentAddressableStorageClient::new(self.channel.clone())
            .max_decoding_message_size(MAX_MESSAGE)
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        *request.metadata_mut() = self.headers.clone();
        request.set_timeout(self.timeout);
        request
    }

    /// Makes a call, and repeats it if that may help.
    async fn call<T, F>(&self, mut attempt: impl FnMut() -> F) -> Result<T, Status>
    where
        F: Future<Output = Result<tonic::Response<T>, Status>>,
    {
        let mut pause = self.retries.pause;
        for left in (0..=self.retries.count).rev() {
            let answer = tokio::time::timeout(self.timeout, attempt()).await;
            let status = match answer {
                Ok(Ok(answer)) => return Ok(answer.into_inner()),
                Ok(Err(status)) => status,
                Err(_) => return Err(Status::deadline_exceeded("no answer in time")),
            };
            if left == 0 || !is_passing(&status) {
                return Err(status);
            }
            tokio::time::sleep(pause).await;
            pause *= 3;
        }
        Err(Status::unknown("not tried"))
    }
}

impl Backend for Client {
    fn function(&self) -> Reply<'_, Function> {
        Box::pin(async { Ok(self.server().await?.function) })
    }

    fn entry(&self, key: Key, beside: bool) -> Reply<'_, Option<Entry>> {
        Box::pin(self.find_entry(key, beside))
    }

    fn has_beside(&self) -> bool {
        true
    }

    fn set_entry(&self, key: Key, entry: Entry) -> Reply<'_, ()> {
        Box::pin(self.put_entry(key, entry))
    }

    fn missing(&self, wires: Vec<Wire>) -> Reply<'_, Vec<Wire>> {
        Box::pin(self.find_missing(wires))
    }

    fn read(&self, wire: Wire) -> Reply<'_, Vec<u8>> {
        Box::pin(self.read_blob(wire))
    }

    fn fetch(&self, wants: Vec<Want>) -> Reply<'_, ()> {
        Box::pin(self.fetch_all(wants))
    }

    fn store(&self, offers: Vec<Offer>) -> Reply<'_, ()> {
        Box::pin(self.store_all(offers))
    }

    fn is_writable(&self) -> Reply<'_, bool> {
        Box::pin(async { Ok(self.server().await?.takes_entries) })
    }
}

impl Server {
    fn of(found: &re::CacheCapabilities, compress: bool) -> Result<Self> {
        let knows = |function: Digests| found.digest_functions.contains(&(function as i32));
        let function = if knows(Digests::Blake3) {
            Function::Blake3
        } else if knows(Digests::Sha256) || found.digest_functions.is_empty() {
            Function::Sha256
        } else {
            return Err(Failure::Forbidden(
                "it knows neither BLAKE3 nor SHA-256".to_owned(),
            ));
        };
        let zstd = re::compressor::Value::Zstd as i32;
        let size = |said: i64, without: u64| match u64::try_from(said) {
            Ok(said) if said > 0 => said,
            _ => without,
        };
        let updates = &found.action_cache_update_capabilities;
        Ok(Self {
            function,
            takes_entries: updates
                .as_ref()
                .is_none_or(|updates| updates.update_enabled),
            zstd: compress && found.supported_compressors.contains(&zstd),
            zstd_batches: compress && found.supported_batch_update_compressors.contains(&zstd),
            batch: size(found.max_batch_total_size_bytes, BATCH).clamp(1024, BATCH),
            max_blob: size(found.max_cas_blob_size_bytes, u64::MAX),
        })
    }

    fn function_number(&self) -> i32 {
        number(self.function)
    }
}

fn number(function: Function) -> i32 {
    match function {
        Function::Blake3 => Digests::Blake3 as i32,
        Function::Sha256 => Digests::Sha256 as i32,
    }
}

/// Returns the action digest for a key.
fn action(key: Key, function: Function) -> re::Digest {
    let nothing = digest(function.of(b""));
    let action = re::Action {
        command_digest: Some(nothing.clone()),
        input_root_digest: Some(nothing),
        salt: key.0.to_vec(),
        ..Default::default()
    };
    digest(function.of(&action.encode_to_vec()))
}

/// Reads an action's result as an entry.
fn entry(result: re::ActionResult, function: Function) -> Result<Entry> {
    let wrong = || Failure::Wrong("an entry is not one of pcache's".to_owned());
    let contents = result.output_files.iter();
    let contents = contents.map(|file| file.digest.as_ref().and_then(wire).ok_or_else(wrong));
    let contents = contents.collect::<Result<Vec<Wire>>>()?;
    let sent = blob(result.stdout_digest.as_ref(), result.stdout_raw, function)?;
    let (blob, inlined) = sent.ok_or_else(wrong)?;
    let beside = self::blob(result.stderr_digest.as_ref(), result.stderr_raw, function)?;
    Ok(Entry {
        blob,
        inlined,
        contents,
        beside,
    })
}

/// Returns a blob that an entry names, inlines, or both.
fn blob(
    said: Option<&re::Digest>,
    sent: Vec<u8>,
    function: Function,
) -> Result<Option<(Wire, Option<Vec<u8>>)>> {
    let sent = Some(sent).filter(|bytes| !bytes.is_empty());
    let found = sent.as_ref().map(|bytes| function.of(bytes));
    let Some(said) = said else {
        return Ok(found.map(|found| (found, sent)));
    };
    let wrong = || Failure::Wrong("an entry is not one of pcache's".to_owned());
    let said = wire(said).ok_or_else(wrong)?;
    if said.size > MAX_PACKED {
        return Err(Failure::Wrong("a blob is too large".to_owned()));
    }
    if found.is_some_and(|found| found != said) {
        return Err(Failure::Wrong("a blob has another digest".to_owned()));
    }
    Ok(Some((said, sent)))
}

fn digest(wire: Wire) -> re::Digest {
    re::Digest {
        hash: wire.hex(),
        size_bytes: i64::try_from(wire.size).unwrap_or(i64::MAX),
    }
}

fn wire(digest: &re::Digest) -> Option<Wire> {
    Wire::parse(&digest.hash, digest.size_bytes)
}

/// Whether a failure may be temporary.
fn is_passing(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::Unavailable | Code::Aborted | Code::Internal | Code::Unknown | Code::Cancelled
    )
}

fn failure(status: &Status) -> Failure {
    // The innermost cause is the most specific: "connection refused" rather than "transport
    // error".
    let mut text = status.message().to_owned();
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        text = error.to_string();
        cause = error.source();
    }
    let text: String = text.chars().filter(|c| !c.is_control()).take(200).collect();
    match status.code() {
        Code::DeadlineExceeded => Failure::Slow,
        Code::ResourceExhausted => Failure::Full(text),
        Code::NotFound => Failure::Missing,
        Code::Unauthenticated | Code::PermissionDenied | Code::Unimplemented => {
            Failure::Forbidden(text)
        }
        Code::InvalidArgument | Code::OutOfRange | Code::DataLoss | Code::FailedPrecondition => {
            Failure::Wrong(text)
        }
        _ => Failure::Unreachable(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_common_digest_function_is_chosen() {
        let server = |functions: &[Digests]| {
            let found = re::CacheCapabilities {
                digest_functions: functions.iter().map(|f| *f as i32).collect(),
                max_batch_total_size_bytes: 1 << 30,
                ..Default::default()
            };
            Server::of(&found, true)
        };
        let both = server(&[Digests::Sha256, Digests::Blake3]).unwrap();
        assert_eq!(both.function, Function::Blake3);
        assert_eq!(both.batch, BATCH, "however large a message it takes");
        assert_eq!(
            server(&[Digests::Sha256]).unwrap().function,
            Function::Sha256
        );
        assert_eq!(server(&[]).unwrap().function, Function::Sha256);
        assert!(server(&[Digests::Md5]).is_err());
    }

    #[test]
    fn an_inconsistent_entry_is_refused() {
        let of = |result| entry(result, Function::Sha256);
        let right = re::ActionResult {
            stdout_raw: b"blob".to_vec(),
            stdout_digest: Some(digest(Function::Sha256.of(b"blob"))),
            ..Default::default()
        };
        assert_eq!(of(right.clone()).unwrap().inlined.unwrap(), b"blob");
        assert!(of(re::ActionResult::default()).is_err());
        assert!(
            of(re::ActionResult {
                stdout_raw: b"blub".to_vec(),
                ..right.clone()
            })
            .is_err()
        );
        let mut large = right.clone();
        large.stdout_raw.clear();
        large.stdout_digest = Some(digest(Wire {
            hash: [0; 32],
            size: MAX_PACKED + 1,
        }));
        assert!(of(large).is_err());
        let mut file = right;
        file.output_files.push(re::OutputFile::default());
        assert!(of(file).is_err());
    }

    #[test]
    fn a_key_has_the_digest_of_an_action_that_carries_it() {
        let one = action(Key([1; 32]), Function::Sha256);
        assert_ne!(one, action(Key([2; 32]), Function::Sha256));
        assert_ne!(one.hash, action(Key([1; 32]), Function::Blake3).hash);
        assert!(one.size_bytes > 32);
    }
}
