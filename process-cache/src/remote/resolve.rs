//! Resolves names to addresses within bounded time.
//!
//! The C library's resolver has no reliable time limit, and a thread blocked in it cannot be
//! ended, but a process can.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use super::protocol::{Failure, Result};
use super::settings::Address;
use crate::platform::os;

/// Time limit for a name lookup.
const PATIENCE: Duration = Duration::from_secs(2);

/// Returns the addresses of a server. Call it while the process has one thread.
///
/// # Errors
/// [`Failure::Unreachable`].
pub(super) fn addresses(address: &Address) -> Result<Vec<SocketAddr>> {
    let host = address.host.trim_matches(['[', ']']);
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, address.port)]);
    }
    let unknown = || Failure::Unreachable(format!("{host} has no address"));
    let work = || {
        let found = (host, address.port).to_socket_addrs();
        let lines = found
            .into_iter()
            .flatten()
            .map(|found| format!("{found}\n"));
        lines.collect::<String>().into_bytes()
    };
    let told = os::in_child(work, PATIENCE).map_err(|error| match error.kind() {
        std::io::ErrorKind::TimedOut => {
            Failure::Unreachable(format!("no answer to where {host} is"))
        }
        _ => unknown(),
    })?;
    let found: Vec<SocketAddr> = String::from_utf8_lossy(&told)
        .lines()
        .filter_map(|line| line.parse().ok())
        .collect();
    if found.is_empty() {
        return Err(unknown());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_needs_no_name_lookup() {
        for (host, expected) in [("127.0.0.1", "127.0.0.1:7"), ("[::1]", "[::1]:7")] {
            let address = Address {
                tls: false,
                host: host.to_owned(),
                port: 7,
                instance: String::new(),
            };
            assert_eq!(addresses(&address).unwrap(), [expected.parse().unwrap()]);
        }
    }
}
