//! Connects to a server: addresses, TLS, headers.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bazel_remote_apis::build::bazel::remote::execution::v2 as re;
use hyper_util::rt::TokioIo;
use prost::Message as _;
use rustix::net::{SocketFlags, SocketType};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tonic::metadata::{AsciiMetadataKey, AsciiMetadataValue, BinaryMetadataValue, MetadataMap};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use super::{Client, Server, credentials};
use crate::platform::lock::lock;
use crate::remote::protocol::{Failure, Result, Retries};
use crate::remote::settings::{Address, Settings};

/// Time limit for a connection, unless the user sets a longer one.
const CONNECT: Duration = Duration::from_millis(1500);
/// Flow control window for responses: data that a fast and distant server sends in a moment
/// (bytes).
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;

/// All data needed for a connection.
#[derive(Debug, Clone)]
pub struct Prepared {
    endpoint: Endpoint,
    addresses: Arc<[SocketAddr]>,
    /// A connection started before it is needed.
    begun: Begun,
    headers: MetadataMap,
    instance: Arc<str>,
    /// Time limit for a connection.
    limit: Duration,
    timeout: Duration,
    compress: bool,
    server: Arc<OnceCell<Server>>,
}

type Begun = Arc<Mutex<Option<std::net::TcpStream>>>;

impl Prepared {
    /// Starts to connect without waiting, so that the first request finds a connection.
    pub(in crate::remote) fn begin(&self) {
        *lock(&self.begun) = self.addresses.first().and_then(|address| begin(*address));
    }

    /// Closes the early connection, if it is unused.
    pub(in crate::remote) fn stop(&self) {
        *lock(&self.begun) = None;
    }
}

/// Starts connecting early. An error occurs again where it is reported.
fn begin(address: SocketAddr) -> Option<std::net::TcpStream> {
    let family = match address {
        SocketAddr::V4(_) => rustix::net::AddressFamily::INET,
        SocketAddr::V6(_) => rustix::net::AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None).ok()?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Some(socket.into()),
        Err(_) => None,
    }
}

/// Reads the files named in the settings. `addresses` are those of the server.
///
/// # Errors
/// [`Failure::Forbidden`]: a defect of the settings or the files.
pub fn prepare(
    address: &Address,
    addresses: Vec<SocketAddr>,
    settings: &Settings,
) -> Result<Prepared> {
    let limit = CONNECT.max(settings.patience).min(settings.timeout);
    let scheme = if address.tls { "https" } else { "http" };
    let uri = format!("{scheme}://{}:{}", address.host, address.port);
    let bad = |error: tonic::transport::Error| Failure::Forbidden(format!("{uri}: {error}"));
    let mut endpoint = Endpoint::from_shared(uri.clone())
        .map_err(bad)?
        .user_agent(concat!("pcache/", env!("CARGO_PKG_VERSION")))
        .map_err(bad)?
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .connect_timeout(limit);
    if address.tls {
        endpoint = endpoint.tls_config(tls(settings)?).map_err(bad)?;
    }
    Ok(Prepared {
        endpoint,
        addresses: addresses.into(),
        begun: Begun::default(),
        headers: headers(settings, &uri)?,
        instance: address.instance.as_str().into(),
        limit,
        timeout: settings.timeout,
        compress: settings.compress,
        server: Arc::default(),
    })
}

/// Creates a client that connects at its first request. Call it inside the runtime that will drive
/// it.
pub(in crate::remote) fn connect(prepared: &Prepared, retries: Retries) -> Client {
    let (addresses, limit) = (prepared.addresses.clone(), prepared.limit);
    let begun = prepared.begun.clone();
    let connector = tower::service_fn(move |_| {
        let (addresses, begun) = (addresses.clone(), lock(&begun).take());
        async move {
            if let Some(begun) = begun
                && let Ok(stream) = begun_to(begun, limit).await
            {
                return Ok(TokioIo::new(stream));
            }
            dial(&addresses, limit).await.map(TokioIo::new)
        }
    });
    Client {
        channel: prepared.endpoint.connect_with_connector_lazy(connector),
        headers: prepared.headers.clone(),
        instance: prepared.instance.clone(),
        timeout: prepared.timeout,
        retries,
        compress: prepared.compress,
        server: prepared.server.clone(),
    }
}

/// Waits for a connection that was started early.
async fn begun_to(begun: std::net::TcpStream, limit: Duration) -> io::Result<TcpStream> {
    let stream = TcpStream::from_std(begun)?;
    tokio::time::timeout(limit, stream.writable()).await??;
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Connects to the first address that answers.
async fn dial(addresses: &[SocketAddr], limit: Duration) -> io::Result<TcpStream> {
    let mut result = Err(io::Error::other("the server has no address"));
    for address in addresses {
        result = match tokio::time::timeout(limit, TcpStream::connect(address)).await {
            Ok(connected) => connected,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        };
        if let Ok(stream) = &result {
            stream.set_nodelay(true)?;
            break;
        }
    }
    result
}

fn tls(settings: &Settings) -> Result<ClientTlsConfig> {
    let mut tls = match &settings.ca {
        Some(path) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(contents(path)?)),
        None => ClientTlsConfig::new().with_native_roots(),
    };
    if let (Some(certificate), Some(key)) = (&settings.certificate, &settings.key) {
        let identity = Identity::from_pem(contents(certificate)?, contents(key)?);
        tls = tls.identity(identity);
    }
    Ok(tls)
}

/// Returns the headers of each request: headers and a token from files, and the client's name.
fn headers(settings: &Settings, uri: &str) -> Result<MetadataMap> {
    let mut map = MetadataMap::new();
    let details = re::RequestMetadata {
        tool_details: Some(re::ToolDetails {
            tool_name: "pcache".to_owned(),
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        }),
        ..Default::default()
    };
    map.insert_bin(
        "build.bazel.remote.execution.v2.requestmetadata-bin",
        BinaryMetadataValue::from_bytes(&details.encode_to_vec()),
    );
    if let Some(path) = &settings.headers {
        let text = text(path)?;
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            // The line itself may be a secret.
            let wrong = || {
                let path = path.display();
                Failure::Forbidden(format!("{path} has a line that is not `name: value`"))
            };
            let (name, value) = line.split_once(':').ok_or_else(wrong)?;
            let name: AsciiMetadataKey = name.trim().parse().map_err(|_| wrong())?;
            map.append(name, secret(value.trim()).ok_or_else(wrong)?);
        }
    }
    if let Some(path) = &settings.token {
        let text = text(path)?;
        let value = secret(&format!("Bearer {}", text.trim()))
            .ok_or_else(|| Failure::Forbidden(format!("{} holds no token", path.display())))?;
        map.insert("authorization", value);
    }
    if let Some(program) = &settings.credential_helper {
        for (name, value) in credentials::ask(program, uri, settings.timeout)? {
            let wrong = || {
                let program = program.display();
                Failure::Forbidden(format!("{program} gives a header that is none"))
            };
            let name: AsciiMetadataKey = name.parse().map_err(|_| wrong())?;
            map.append(name, secret(&value).ok_or_else(wrong)?);
        }
    }
    Ok(map)
}

fn secret(value: &str) -> Option<AsciiMetadataValue> {
    let mut value: AsciiMetadataValue = value.parse().ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn contents(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path)
        .map_err(|error| Failure::Forbidden(format!("cannot read {}: {error}", path.display())))
}

fn text(path: &Path) -> Result<String> {
    String::from_utf8(contents(path)?)
        .map_err(|_| Failure::Forbidden(format!("{} is no text", path.display())))
}
