//! Waiting for a gdb that somebody else starts.

use crate::failure::{Failure, complain};
use bugnet_debugger::{Client, Debuggee, ServeError, serve};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;

/// Serves one gdb after another at an address: `HOST:PORT`, `:PORT` for this machine alone, or the path of a socket.
pub fn serve_at(address: &str, debuggee: &mut Debuggee<'_>) -> Result<(), Failure> {
    let failed = || Failure::system(format!("listen at {address}"));
    if address.contains('/') {
        let listener = UnixListener::bind(Path::new(address)).map_err(failed())?;
        complain(&format!("waiting for gdb; connect with: target remote {address}"));
        loop {
            let (client, _) = listener.accept().map_err(failed())?;
            one(debuggee, Client::Unix(client))?;
        }
    }
    let address = address.strip_prefix(':').map_or_else(|| address.to_owned(), |port| format!("127.0.0.1:{port}"));
    let listener = TcpListener::bind(&address).map_err(failed())?;
    let at = listener.local_addr().map_err(failed())?;
    complain(&format!("waiting for gdb; connect with: target remote {at}"));
    loop {
        let (client, _) = listener.accept().map_err(failed())?;
        // Packets are short, and each waits for an answer.
        client.set_nodelay(true).map_err(failed())?;
        one(debuggee, Client::Tcp(client))?;
    }
}

/// Serves one; what it does wrong is no reason to turn the next one away.
fn one(debuggee: &mut Debuggee<'_>, client: Client) -> Result<(), Failure> {
    match serve(debuggee, client) {
        Err(error @ ServeError::Replay(_)) => Err(error.into()),
        Err(error) => {
            complain(&error);
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}
