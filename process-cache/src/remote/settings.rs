//! Location and use of a remote cache.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};

/// Options of the command line.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Remote cache")]
pub struct RemoteArgs {
    /// Share results through a remote cache: grpc://HOST:PORT[/INSTANCE],
    /// grpcs://HOST[:PORT][/INSTANCE] or dir:PATH.
    #[arg(long, value_name = "URL", env = "PCACHE_REMOTE")]
    remote: Option<String>,
    /// Take results from there, put results there, or both.
    #[arg(long, value_enum, value_name = "MODE", default_value_t = Mode::ReadWrite,
          env = "PCACHE_REMOTE_MODE")]
    remote_mode: Mode,
    /// Results from there may also write below DIR, not only below the working
    /// directory.
    #[arg(
        long,
        value_name = "DIR",
        env = "PCACHE_REMOTE_WRITES",
        value_delimiter = ':'
    )]
    remote_writes: Vec<PathBuf>,
    /// Send the headers in FILE along, one `name: value` a line.
    #[arg(long, value_name = "FILE", env = "PCACHE_REMOTE_HEADERS")]
    remote_headers: Option<PathBuf>,
    /// Send the token in FILE along (`authorization: Bearer ...`).
    #[arg(long, value_name = "FILE", env = "PCACHE_REMOTE_TOKEN")]
    remote_token: Option<PathBuf>,
    /// Ask PROGRAM for headers to send along, as Bazel asks its credential helpers.
    #[arg(long, value_name = "PROGRAM", env = "PCACHE_REMOTE_CREDENTIAL_HELPER")]
    remote_credential_helper: Option<PathBuf>,
    /// Trust the certificates in FILE (PEM) instead of the system's.
    #[arg(long, value_name = "FILE", env = "PCACHE_REMOTE_CA")]
    remote_ca: Option<PathBuf>,
    /// Show the certificate in FILE (PEM).
    #[arg(
        long,
        value_name = "FILE",
        env = "PCACHE_REMOTE_CERT",
        requires = "remote_key"
    )]
    remote_cert: Option<PathBuf>,
    /// The key of that certificate (PEM).
    #[arg(
        long,
        value_name = "FILE",
        env = "PCACHE_REMOTE_KEY",
        requires = "remote_cert"
    )]
    remote_key: Option<PathBuf>,
    /// How long the command may be kept waiting in all (seconds), besides a twentieth of
    /// its time, and the time that results from there have saved.
    #[arg(
        long,
        value_name = "S",
        default_value_t = 1.0,
        env = "PCACHE_REMOTE_PATIENCE"
    )]
    remote_patience: f64,
    /// How long one request may take (seconds).
    #[arg(
        long,
        value_name = "S",
        default_value_t = 10.0,
        env = "PCACHE_REMOTE_TIMEOUT"
    )]
    remote_timeout: f64,
    /// How long to wait at the end for results that are still on their way there
    /// (seconds).
    #[arg(
        long,
        value_name = "S",
        default_value_t = 10.0,
        env = "PCACHE_REMOTE_WAIT"
    )]
    remote_wait: f64,
    /// When the local store gets the result of a whole command that was found there: before
    /// pcache ends, or by a process that it leaves behind for some milliseconds.
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "behind",
        env = "PCACHE_REMOTE_KEEP"
    )]
    remote_keep: Keep,
    /// Compress what is sent, where the server can do that.
    #[arg(long, value_name = "YES", default_value_t = true, env = "PCACHE_REMOTE_COMPRESS",
          action = clap::ArgAction::Set, hide_possible_values = true)]
    remote_compress: bool,
}

/// Which way results go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// From there only.
    Read,
    /// There only.
    Write,
    /// Both.
    ReadWrite,
}

impl Mode {
    /// Whether results are taken.
    pub fn reads(self) -> bool {
        self != Self::Write
    }

    /// Whether results are given.
    pub fn writes(self) -> bool {
        self != Self::Read
    }
}

/// When the result of a whole command gets into the local store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Keep {
    /// Before the command is done.
    Now,
    /// By a process that is left behind.
    Behind,
}

/// A server of the Remote Execution API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Whether the connection is encrypted.
    pub tls: bool,
    /// Name or address; an IPv6 address in brackets.
    pub host: String,
    /// The TCP port.
    pub port: u16,
    /// The name of the instance, often empty.
    pub instance: String,
}

/// Location of a remote cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A server.
    Server(Address),
    /// A directory.
    Directory(PathBuf),
}

/// Why a text names no remote cache.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no remote cache: use grpc://HOST:PORT[/INSTANCE], grpcs://HOST[:PORT][/INSTANCE] or dir:/PATH"
)]
pub struct NoPlace(String);

impl FromStr for Place {
    type Err = NoPlace;

    fn from_str(text: &str) -> Result<Self, NoPlace> {
        let wrong = || NoPlace(text.to_owned());
        if let Some(path) = text.strip_prefix("dir:") {
            let path = PathBuf::from(path.strip_prefix("//").unwrap_or(path));
            return if path.is_absolute() {
                Ok(Self::Directory(path))
            } else {
                Err(wrong())
            };
        }
        let (tls, rest) = match text.split_once("://").ok_or_else(wrong)? {
            ("grpc", rest) => (false, rest),
            ("grpcs", rest) => (true, rest),
            _ => return Err(wrong()),
        };
        let (authority, instance) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                (host, port.parse().map_err(|_| wrong())?)
            }
            _ if tls => (authority, 443),
            _ => return Err(wrong()),
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-._[]:".contains(c);
        let bare = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
        let odd = |c: char| c.is_whitespace() || c.is_control();
        if host.is_empty() || bare || !host.chars().all(is_name) || instance.contains(odd) {
            return Err(wrong());
        }
        Ok(Self::Server(Address {
            tls,
            host: host.to_owned(),
            port,
            instance: instance.trim_end_matches('/').to_owned(),
        }))
    }
}

/// How a remote cache is used.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The URL as given.
    pub url: String,
    /// The parsed location.
    pub place: Place,
    /// The directions of transfer.
    pub mode: Mode,
    /// Results may write below these directories.
    pub roots: Vec<PathBuf>,
    /// How long the command may wait in total, at the start.
    pub patience: Duration,
    /// Time limit for one request.
    pub timeout: Duration,
    /// Time limit for uploads at the end.
    pub wait: Duration,
    /// When the result of a whole command is put into the local store.
    pub keep: Keep,
    /// Whether contents are compressed in transfer.
    pub compress: bool,
    /// A file of headers.
    pub headers: Option<PathBuf>,
    /// A file with a token.
    pub token: Option<PathBuf>,
    /// A program that provides headers.
    pub credential_helper: Option<PathBuf>,
    /// Trusted certificates.
    pub ca: Option<PathBuf>,
    /// The client's certificate.
    pub certificate: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
}

impl RemoteArgs {
    /// Returns the settings, if a remote cache is configured.
    ///
    /// # Errors
    /// The defect of the settings.
    pub fn settings(&self) -> anyhow::Result<Option<Settings>> {
        let Some(url) = self.remote.as_ref().filter(|url| !url.is_empty()) else {
            return Ok(None);
        };
        let seconds = |seconds: f64| {
            Duration::try_from_secs_f64(seconds)
                .map_err(|_| anyhow::anyhow!("{seconds} is no time in seconds"))
        };
        let mut roots = self.remote_writes.clone();
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let cwd = std::env::current_dir()?;
        // In a home or root directory, the restriction would have no effect.
        if cwd.parent().is_some() && Some(&cwd) != home.as_ref() {
            roots.push(cwd);
        }
        Ok(Some(Settings {
            url: url.clone(),
            place: url.parse()?,
            mode: self.remote_mode,
            roots,
            patience: seconds(self.remote_patience)?,
            timeout: seconds(self.remote_timeout)?,
            wait: seconds(self.remote_wait)?,
            keep: self.remote_keep,
            compress: self.remote_compress,
            headers: self.remote_headers.clone(),
            token: self.remote_token.clone(),
            credential_helper: self.remote_credential_helper.clone(),
            ca: self.remote_ca.clone(),
            certificate: self.remote_cert.clone(),
            key: self.remote_key.clone(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_server(text: &str, tls: bool, host: &str, port: u16, instance: &str) {
        let expected = Place::Server(Address {
            tls,
            host: host.to_owned(),
            port,
            instance: instance.to_owned(),
        });
        assert_eq!(text.parse(), Ok(expected), "{text}");
    }

    #[test]
    fn remote_urls_are_parsed_in_all_spellings() {
        check_server("grpc://localhost:9092", false, "localhost", 9092, "");
        check_server("grpc://10.0.0.1:80/", false, "10.0.0.1", 80, "");
        check_server("grpcs://cache.example", true, "cache.example", 443, "");
        check_server("grpcs://c:8980/a/b/", true, "c", 8980, "a/b");
        check_server("grpc://[::1]:9092/main", false, "[::1]", 9092, "main");
        check_server("grpcs://[::1]", true, "[::1]", 443, "");
        for dir in ["dir:/mnt/cache", "dir:///mnt/cache"] {
            assert_eq!(dir.parse(), Ok(Place::Directory("/mnt/cache".into())));
        }
    }

    #[test]
    fn invalid_remote_urls_are_refused() {
        for text in [
            "localhost:9092",
            "http://localhost:9092",
            "grpc://localhost",
            "grpc://:1",
            "grpc://host:0x",
            "grpc://host:99999",
            "grpc://::1:9092",
            "grpc://a b:1",
            "grpc://user@host:1",
            "grpc://host:1/a b",
            "dir:relative",
            "",
        ] {
            let error = text.parse::<Place>().expect_err(text);
            assert!(error.to_string().contains(text));
        }
    }
}
