//! A server of the Remote Execution API in this process, with injected faults.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use bazel_remote_apis::build::bazel::remote::execution::v2 as re;
use bazel_remote_apis::google::bytestream as bs;
use bazel_remote_apis::google::rpc;
use process_cache::remote::codec::{self, Stored};
use process_cache::remote::digest::{Function, Wire};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio_stream::StreamExt;
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tonic::{Code, Request, Response, Status, Streaming};

/// An injected fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// Contents are refused, as by a server whose disk is full.
    Full,
    /// Contents are read with wrong bytes.
    WrongBytes,
    /// Contents of results are lost, but the results are not.
    Lost,
    /// No request is answered.
    Silent,
    /// Each answer takes this long.
    Slow(Duration),
    /// Connections end at the n-th request from now on, and new ones are refused.
    Dies(usize),
}

/// The properties of a server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) function: Function,
    pub(crate) zstd: bool,
    /// Whether it inlines blobs in entries.
    pub(crate) inlines: bool,
}

/// The usual one.
pub(crate) const PLAIN: Kind = Kind {
    function: Function::Sha256,
    zstd: false,
    inlines: true,
};

struct State {
    kind: Kind,
    fault: Fault,
    blobs: HashMap<Wire, Vec<u8>>,
    actions: HashMap<String, re::ActionResult>,
    /// Number of requests by kind.
    asked: BTreeMap<&'static str, usize>,
    /// Requested instances, and received tokens.
    instances: Vec<String>,
    tokens: Vec<String>,
    /// Ends the server.
    end: Option<oneshot::Sender<()>>,
}

/// The services.
#[derive(Clone)]
struct Service(Arc<(Mutex<State>, Condvar)>);

/// A running server; ends when it is dropped.
pub(crate) struct FakeServer {
    service: Service,
    address: SocketAddr,
    runtime: Option<Runtime>,
}

impl FakeServer {
    /// Starts one on a free port.
    pub(crate) fn start(kind: Kind) -> Self {
        Self::start_with(kind, None)
    }

    /// Starts one with TLS and this identity.
    pub(crate) fn start_with(kind: Kind, identity: Option<Identity>) -> Self {
        let (end, ended) = oneshot::channel();
        let state = State {
            kind,
            fault: Fault::None,
            blobs: HashMap::new(),
            actions: HashMap::new(),
            asked: BTreeMap::new(),
            instances: Vec::new(),
            tokens: Vec::new(),
            end: Some(end),
        };
        let service = Service(Arc::new((Mutex::new(state), Condvar::new())));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let listener = runtime
            .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
            .expect("a port");
        let address = listener.local_addr().expect("its address");
        let mut server = Server::builder();
        if let Some(identity) = identity {
            let tls = ServerTlsConfig::new().identity(identity);
            server = server.tls_config(tls).expect("an identity");
        }
        const LARGE: usize = 64 << 20;
        let router = server
            .add_service(re::capabilities_server::CapabilitiesServer::new(
                service.clone(),
            ))
            .add_service(re::action_cache_server::ActionCacheServer::new(
                service.clone(),
            ))
            .add_service(
                re::content_addressable_storage_server::ContentAddressableStorageServer::new(
                    service.clone(),
                )
                .max_decoding_message_size(LARGE),
            )
            .add_service(bs::byte_stream_server::ByteStreamServer::new(
                service.clone(),
            ));
        let incoming = tonic::transport::server::TcpIncoming::from(listener);
        runtime.spawn(async move {
            // Ends with all its connections.
            tokio::select! {
                _ = router.serve_with_incoming(incoming) => {}
                _ = ended => {}
            }
        });
        Self {
            service,
            address,
            runtime: Some(runtime),
        }
    }

    /// The value of `--remote`.
    pub(crate) fn url(&self) -> String {
        format!("grpc://{}", self.address)
    }

    /// Its port.
    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Injects this fault from now on.
    pub(crate) fn fail(&self, fault: Fault) {
        self.service.state().fault = fault;
    }

    /// Returns the number of requests of this kind.
    pub(crate) fn asked(&self, what: &str) -> usize {
        self.service.state().asked.get(what).copied().unwrap_or(0)
    }

    /// Returns the requested instances.
    pub(crate) fn instances(&self) -> Vec<String> {
        self.service.state().instances.clone()
    }

    /// Returns the received tokens.
    pub(crate) fn tokens(&self) -> Vec<String> {
        self.service.state().tokens.clone()
    }

    /// Changes every result.
    pub(crate) fn poison(&self, change: impl Fn(&mut Stored)) {
        let mut state = self.service.state();
        let state = &mut *state;
        let mut poisoned = 0;
        for action in state.actions.values_mut() {
            let wire = action.stdout_digest.as_ref().map(wire).expect("a blob");
            let Ok(mut stored) = codec::decode_result(&state.blobs[&wire]) else {
                continue;
            };
            change(&mut stored);
            for content in &mut stored.contents {
                content.hash = match state.kind.function {
                    Function::Blake3 => content.digest.0,
                    Function::Sha256 => content.hash,
                };
            }
            let blob = codec::encode_result(&stored).expect("a result");
            let wire = state.kind.function.of(&blob);
            state.blobs.insert(wire, blob);
            action.stdout_digest = Some(digest(wire));
            poisoned += 1;
        }
        assert!(poisoned > 0, "there is no result");
    }

    /// Replaces the blobs of all entries by these bytes.
    pub(crate) fn replace_blobs(&self, bytes: &[u8]) {
        let mut state = self.service.state();
        let state = &mut *state;
        let wire = state.kind.function.of(bytes);
        state.blobs.insert(wire, bytes.to_vec());
        for action in state.actions.values_mut() {
            action.stdout_digest = Some(digest(wire));
        }
    }

    /// Changes the blobs next to entries; returns their number.
    pub(crate) fn change_bundles(&self, change: impl Fn(Vec<u8>) -> Vec<u8>) -> usize {
        let mut state = self.service.state();
        let state = &mut *state;
        let mut changed = 0;
        for action in state.actions.values_mut() {
            let Some(name) = action.stderr_digest.as_ref().map(wire) else {
                continue;
            };
            let bytes = change(state.blobs[&name].clone());
            let wire = state.kind.function.of(&bytes);
            state.blobs.insert(wire, bytes);
            action.stderr_digest = Some(digest(wire));
            changed += 1;
        }
        changed
    }

    /// The number of entries.
    pub(crate) fn entries(&self) -> usize {
        self.service.state().actions.len()
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn digest(wire: Wire) -> re::Digest {
    re::Digest {
        hash: wire.hex(),
        size_bytes: wire.size as i64,
    }
}

fn wire(digest: &re::Digest) -> Wire {
    Wire::parse(&digest.hash, digest.size_bytes).expect("a digest")
}

impl Service {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().expect("no test panicked in it")
    }

    /// Handles a request.
    async fn asked<T>(
        &self,
        what: &'static str,
        request: &Request<T>,
        instance: Option<&str>,
    ) -> Result<Kind, Status> {
        let (kind, fault) = {
            let mut state = self.state();
            *state.asked.entry(what).or_default() += 1;
            let token = request.metadata().get("authorization");
            let token = token.map(|token| token.to_str().expect("text").to_owned());
            state.tokens.extend(token);
            state.instances.extend(instance.map(str::to_owned));
            if let Fault::Dies(left) = &mut state.fault {
                match left.checked_sub(1) {
                    Some(fewer) => *left = fewer,
                    None => drop(state.end.take()),
                }
            }
            (state.kind, state.fault)
        };
        if matches!(fault, Fault::Silent | Fault::Dies(0)) {
            std::future::pending::<()>().await;
        }
        if let Fault::Slow(delay) = fault {
            tokio::time::sleep(delay).await;
        }
        Ok(kind)
    }

    fn put(&self, name: Wire, bytes: Vec<u8>) -> Result<(), Status> {
        let mut state = self.state();
        if state.fault == Fault::Full {
            return Err(Status::resource_exhausted("the disk is full"));
        }
        if state.kind.function.of(&bytes) != name {
            return Err(Status::invalid_argument("these bytes have another digest"));
        }
        state.blobs.insert(name, bytes);
        Ok(())
    }

    fn get(&self, name: Wire) -> Result<Vec<u8>, Status> {
        let state = self.state();
        let mut bytes = match state.fault {
            Fault::Lost => None,
            _ => state.blobs.get(&name).cloned(),
        }
        .ok_or_else(|| Status::not_found("no such blob"))?;
        if state.fault == Fault::WrongBytes
            && let Some(last) = bytes.last_mut()
        {
            *last ^= 1;
        }
        Ok(bytes)
    }
}

/// Parses a resource of the byte-stream service: returns its name, its digest, and whether it is
/// compressed.
fn resource(name: &str) -> (String, Wire, bool) {
    let parts: Vec<&str> = name.split('/').collect();
    let [.., hash, size] = &parts[..] else {
        panic!("no resource: {name}")
    };
    let wire = Wire::parse(hash, size.parse().expect("a size")).expect("a digest");
    let kinds = ["uploads", "blobs", "compressed-blobs"];
    let instance = parts.iter().take_while(|part| !kinds.contains(part));
    let instance: Vec<&str> = instance.copied().collect();
    let compressed = name.contains("compressed-blobs/zstd/");
    (instance.join("/"), wire, compressed)
}

#[tonic::async_trait]
impl re::capabilities_server::Capabilities for Service {
    async fn get_capabilities(
        &self,
        request: Request<re::GetCapabilitiesRequest>,
    ) -> Result<Response<re::ServerCapabilities>, Status> {
        let instance = request.get_ref().instance_name.clone();
        let kind = self
            .asked("capabilities", &request, Some(&instance))
            .await?;
        let function = match kind.function {
            Function::Blake3 => re::digest_function::Value::Blake3,
            Function::Sha256 => re::digest_function::Value::Sha256,
        };
        let compressors = vec![re::compressor::Value::Zstd as i32; usize::from(kind.zstd)];
        Ok(Response::new(re::ServerCapabilities {
            cache_capabilities: Some(re::CacheCapabilities {
                digest_functions: vec![function as i32],
                action_cache_update_capabilities: Some(re::ActionCacheUpdateCapabilities {
                    update_enabled: true,
                }),
                supported_compressors: compressors.clone(),
                supported_batch_update_compressors: compressors,
                ..Default::default()
            }),
            ..Default::default()
        }))
    }
}

#[tonic::async_trait]
impl re::action_cache_server::ActionCache for Service {
    async fn get_action_result(
        &self,
        request: Request<re::GetActionResultRequest>,
    ) -> Result<Response<re::ActionResult>, Status> {
        let message = request.get_ref().clone();
        let kind = self
            .asked("get", &request, Some(&message.instance_name))
            .await?;
        let key = message.action_digest.expect("a digest").hash;
        let state = self.state();
        let mut result = state
            .actions
            .get(&key)
            .cloned()
            .ok_or_else(|| Status::not_found("no such action"))?;
        if kind.inlines && message.inline_stdout {
            let name = result.stdout_digest.as_ref().map(wire).expect("a blob");
            result.stdout_raw = state.blobs[&name].clone();
        }
        if kind.inlines
            && message.inline_stderr
            && let Some(name) = result.stderr_digest.as_ref().map(wire)
        {
            result.stderr_raw = state.blobs[&name].clone();
        }
        Ok(Response::new(result))
    }

    async fn update_action_result(
        &self,
        request: Request<re::UpdateActionResultRequest>,
    ) -> Result<Response<re::ActionResult>, Status> {
        let message = request.get_ref().clone();
        self.asked("update", &request, Some(&message.instance_name))
            .await?;
        let result = message.action_result.expect("a result");
        let mut state = self.state();
        let files = result.output_files.iter().map(|file| &file.digest);
        for digest in files
            .chain([&result.stdout_digest, &result.stderr_digest])
            .flatten()
        {
            // As servers do that check results for completeness.
            assert!(
                state.blobs.contains_key(&wire(digest)),
                "a content is not there"
            );
        }
        state.actions.insert(
            message.action_digest.expect("a digest").hash,
            result.clone(),
        );
        Ok(Response::new(result))
    }
}

fn ok(result: Result<(), Status>) -> rpc::Status {
    let status = result.err().unwrap_or_else(|| Status::new(Code::Ok, ""));
    rpc::Status {
        code: status.code() as i32,
        message: status.message().to_owned(),
        ..Default::default()
    }
}

type Never<T> = tokio_stream::Empty<Result<T, Status>>;

#[tonic::async_trait]
impl re::content_addressable_storage_server::ContentAddressableStorage for Service {
    type GetTreeStream = Never<re::GetTreeResponse>;
    type GetChunkMappingStream = Never<re::GetChunkMappingResponse>;

    async fn find_missing_blobs(
        &self,
        request: Request<re::FindMissingBlobsRequest>,
    ) -> Result<Response<re::FindMissingBlobsResponse>, Status> {
        let message = request.get_ref().clone();
        self.asked("missing", &request, Some(&message.instance_name))
            .await?;
        let state = self.state();
        let mut missing = message.blob_digests;
        missing.retain(|digest| !state.blobs.contains_key(&wire(digest)));
        Ok(Response::new(re::FindMissingBlobsResponse {
            missing_blob_digests: missing,
        }))
    }

    async fn batch_update_blobs(
        &self,
        request: Request<re::BatchUpdateBlobsRequest>,
    ) -> Result<Response<re::BatchUpdateBlobsResponse>, Status> {
        let instance = request.get_ref().instance_name.clone();
        self.asked("batch write", &request, Some(&instance)).await?;
        let one = |request: re::batch_update_blobs_request::Request| {
            let digest = request.digest.expect("a digest");
            let bytes = match request.compressor {
                0 => request.data,
                _ => zstd::decode_all(&request.data[..]).expect("zstd"),
            };
            let status = ok(self.put(wire(&digest), bytes));
            re::batch_update_blobs_response::Response {
                digest: Some(digest),
                status: Some(status),
            }
        };
        let responses = request.into_inner().requests.into_iter().map(one);
        Ok(Response::new(re::BatchUpdateBlobsResponse {
            responses: responses.collect(),
        }))
    }

    async fn batch_read_blobs(
        &self,
        request: Request<re::BatchReadBlobsRequest>,
    ) -> Result<Response<re::BatchReadBlobsResponse>, Status> {
        let instance = request.get_ref().instance_name.clone();
        let kind = self.asked("batch read", &request, Some(&instance)).await?;
        let one = |digest: re::Digest| {
            let (data, status) = match self.get(wire(&digest)) {
                Ok(bytes) => (bytes, ok(Ok(()))),
                Err(status) => (Vec::new(), ok(Err(status))),
            };
            let (data, compressor) = match kind.zstd {
                true => (zstd::encode_all(&data[..], 1).expect("zstd"), 1),
                false => (data, 0),
            };
            re::batch_read_blobs_response::Response {
                digest: Some(digest),
                data,
                compressor,
                status: Some(status),
            }
        };
        let responses = request.into_inner().digests.into_iter().map(one);
        Ok(Response::new(re::BatchReadBlobsResponse {
            responses: responses.collect(),
        }))
    }

    async fn get_tree(
        &self,
        _: Request<re::GetTreeRequest>,
    ) -> Result<Response<Self::GetTreeStream>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn split_blob(
        &self,
        _: Request<re::SplitBlobRequest>,
    ) -> Result<Response<re::SplitBlobResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn get_chunk_mapping(
        &self,
        _: Request<re::GetChunkMappingRequest>,
    ) -> Result<Response<Self::GetChunkMappingStream>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn splice_blob(
        &self,
        _: Request<re::SpliceBlobRequest>,
    ) -> Result<Response<re::SpliceBlobResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn register_chunk_mapping(
        &self,
        _: Request<Streaming<re::RegisterChunkMappingRequest>>,
    ) -> Result<Response<re::RegisterChunkMappingResponse>, Status> {
        Err(Status::unimplemented(""))
    }
}

#[tonic::async_trait]
impl bs::byte_stream_server::ByteStream for Service {
    type ReadStream = tokio_stream::Iter<std::vec::IntoIter<Result<bs::ReadResponse, Status>>>;

    async fn read(
        &self,
        request: Request<bs::ReadRequest>,
    ) -> Result<Response<Self::ReadStream>, Status> {
        let (instance, wire, compressed) = resource(&request.get_ref().resource_name);
        self.asked("read", &request, Some(&instance)).await?;
        let mut bytes = self.get(wire)?;
        if compressed {
            bytes = zstd::encode_all(&bytes[..], 1).expect("zstd");
        }
        let pieces = bytes.chunks(100_000).map(|piece| {
            Ok(bs::ReadResponse {
                data: piece.to_vec(),
            })
        });
        let pieces: Vec<_> = pieces.collect();
        Ok(Response::new(tokio_stream::iter(pieces)))
    }

    async fn write(
        &self,
        request: Request<Streaming<bs::WriteRequest>>,
    ) -> Result<Response<bs::WriteResponse>, Status> {
        self.asked("write", &request, None).await?;
        let mut stream = request.into_inner();
        let mut name = String::new();
        let mut bytes = Vec::new();
        let mut finished = false;
        while let Some(piece) = stream.next().await {
            let piece = piece?;
            if name.is_empty() {
                name = piece.resource_name;
            }
            assert_eq!(piece.write_offset as usize, bytes.len());
            bytes.extend_from_slice(&piece.data);
            finished |= piece.finish_write;
        }
        assert!(finished, "the last piece says that it is the last");
        let committed_size = bytes.len() as i64;
        let (instance, wire, compressed) = resource(&name);
        self.state().instances.push(instance);
        if compressed {
            bytes = zstd::decode_all(&bytes[..]).expect("zstd");
        }
        self.put(wire, bytes)?;
        Ok(Response::new(bs::WriteResponse { committed_size }))
    }

    async fn query_write_status(
        &self,
        _: Request<bs::QueryWriteStatusRequest>,
    ) -> Result<Response<bs::QueryWriteStatusResponse>, Status> {
        Err(Status::unimplemented(""))
    }
}
